"""The folder of manifests that a daemon watches."""

import json
import pathlib

from lab import objects


class Folder:
    """A new folder; `flags` and `config` are what makes a Daemon read it."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.flags = [f"--manifests={self.folder}"]
        self.config = {}


class Manifests(Folder):
    """Keeps one JSON file per object. A file appears and changes in one step, never half written."""

    def __init__(self, folder):
        super().__init__(folder)
        self._objects = {}

    def put(self, *made):
        """Creates or replaces objects."""
        for one in made:
            if self._objects.get(objects.key(one)) == one:
                continue
            self._write(objects.key(one), one)
            self._objects[objects.key(one)] = one

    def delete(self, *keys):
        """Removes objects, each given by (kind, namespace, name).

        Their files stay, as empty lists: a daemon believes that at once, while a file that is gone might be one that
        an editor is about to write anew.
        """
        for key in keys:
            self._write(key, {"apiVersion": "v1", "kind": "List", "items": []})
            del self._objects[key]

    def replace(self, made):
        """Makes the folder hold exactly these objects; files that stay the same are not touched."""
        wanted = {objects.key(one) for one in made}
        self.put(*made)
        self.delete(*(key for key in list(self._objects) if key not in wanted))

    def _write(self, key, document):
        path = self.folder / ("-".join(filter(None, key)).lower() + ".json")
        temporary = path.with_name("." + path.name + ".tmp")
        temporary.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        temporary.rename(path)
