"""Mode userspace where descriptors run out: new connections wait, and everything else goes on."""

import os
import pathlib
import select
import struct

import lab
import sandbox as boxes
from lab import objects
from test_tcp_reset import Connection
from userspace_world import OTHER_VIP, PATIENCE_S, receive, world  # noqa: F401


def with_limit(folder, descriptors):
    """The daemon as it starts where it may have only so many descriptors, and may not ask for more."""
    path = pathlib.Path(folder) / "kube-proxy"
    path.write_text(f'#!/bin/sh\nulimit -n {descriptors}\nexec setpriv --bounding-set=-sys_resource {os.path.abspath(boxes.BINARY)} "$@"\n')
    path.chmod(0o755)
    return path


class Crowd:
    """Many clients at once, each of which says its number."""

    def __init__(self, world, count):
        self._world = world
        self._waiting = {}
        self._served = []
        for number in range(count):
            self._waiting[number] = client = world.client()
            client.sendall(struct.pack(">H", number))

    def served(self):
        """How many are served now."""
        while select.select([self._world.listen("web1a")], [], [], 0)[0]:
            server = self._world.accept("web1a")
            (number,) = struct.unpack(">H", receive(server, 2))
            self._served.append(Connection(self._waiting.pop(number), server))
        return len(self._served)

    def waiting(self):
        self.served()
        return len(self._waiting)

    def serve(self):
        """Those who are served get what they want, and leave."""
        for one in self._served:
            assert one.works()
            one.close()
        self._served.clear()


def test_clients_wait_when_there_are_no_descriptors_left(world, tmp_path):  # noqa: F811
    limit = 200
    made = world(binary=with_limit(tmp_path, limit))
    made.listen("web1a")
    made.service(["web1a"])
    crowd = Crowd(made, 150)
    lab.wait_for(lambda: crowd.served() >= limit // 8, "some are served", PATIENCE_S)
    assert made.healthy()
    assert crowd.served() <= limit // 2
    while crowd.waiting():
        crowd.serve()
        lab.wait_for(crowd.served, f"{crowd.waiting()} others are served in their turn", PATIENCE_S)
    crowd.serve()
    assert made.connect().works()
    assert made.healthy()
    assert "open files" not in made.daemon.log_text().partition("Started the relay")[2]


def test_a_change_is_taken_up_while_there_are_no_descriptors_left(world, tmp_path):  # noqa: F811
    made = world(binary=with_limit(tmp_path, 200))
    made.listen("web1a")
    made.service(["web1a"])
    crowd = Crowd(made, 100)
    lab.wait_for(lambda: crowd.served() >= 25, "some are served", PATIENCE_S)
    made.manifests.put(objects.service("other", [OTHER_VIP[4]], [objects.port(80)]))
    lab.wait_for(lambda: any(OTHER_VIP[4] in line for line in made.rules()), "the other Service has rules", PATIENCE_S)
    assert made.healthy()


def test_many_services_do_not_take_the_descriptors_of_the_rest(world, tmp_path):  # noqa: F811
    """Each of them has sockets that connections cannot have."""
    made = world(binary=with_limit(tmp_path, 1000))
    made.listen("web1a")
    made.service(["web1a"])
    made.manifests.put(*(objects.service(f"x{number}", [f"10.97.0.{number + 1}", f"fd00:10:96::2:{number + 1:x}"], [objects.port(80)])
                         for number in range(240)))
    made.wait()
    crowd = Crowd(made, 300)
    lab.wait_for(crowd.served, "some are served", PATIENCE_S)
    made.manifests.put(objects.service("other", [OTHER_VIP[4]], [objects.port(80)]))
    lab.wait_for(lambda: any(OTHER_VIP[4] in line for line in made.rules()), "the other Service has rules", PATIENCE_S)
    assert made.healthy()
