"""The folder of manifests that a daemon watches."""

import json
import pathlib

from lab import objects


class Manifests:
    """Keeps one JSON file per object. A file appears, changes and vanishes in one step, never half written."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._objects = {}

    def put(self, *made):
        """Creates or replaces objects."""
        for one in made:
            if self._objects.get(objects.key(one)) == one:
                continue
            path = self._path(objects.key(one))
            temporary = path.with_name("." + path.name + ".tmp")
            temporary.write_text(json.dumps(one, indent=1) + "\n", encoding="utf-8")
            temporary.rename(path)
            self._objects[objects.key(one)] = one

    def delete(self, *keys):
        """Removes objects, each given by (kind, namespace, name)."""
        for key in keys:
            self._path(key).unlink()
            del self._objects[key]

    def replace(self, made):
        """Makes the folder hold exactly these objects; files that stay the same are not touched."""
        wanted = {objects.key(one) for one in made}
        self.put(*made)
        self.delete(*(key for key in list(self._objects) if key not in wanted))

    def _path(self, key):
        return self.folder / ("-".join(filter(None, key)).lower() + ".json")
