#!/usr/bin/env python3
"""A pod: answers every request on its ports with who it is and whom it saw.

    server.py --name web1a --netns kp-123-web1a --tcp 8080,8081 --udp 8080 --echo 9000

Several names, each with its namespace, are several pods that serve the same ports, in one process.

TCP speaks enough HTTP for curl. UDP answers each datagram with one datagram. The answer is one JSON object:
    {"pod": "web1a", "port": 8080, "source": "10.244.1.2", "source_port": 40000, "local": "10.244.1.3", "length": 0}
where port and local are the pod's own end, source is the peer as the pod sees it, and length is the payload's size.
On echo ports, TCP and UDP, every line comes back with the pod's name before it, for as long as the client likes.

Prints "ready" when every port is open, and ends when its standard input closes, so that no server outlives its lab.
"""

import argparse
import json
import os
import pathlib
import socket
import struct
import sys
import threading

IPV6_RECVPKTINFO = 49
IPV6_PKTINFO = 50
REQUEST_TIMEOUT_S = 10


def plain(address):
    return address.removeprefix("::ffff:")


def answer(name, port, peer, local, length):
    record = {"pod": name, "port": port, "source": plain(peer[0]), "source_port": peer[1],
              "local": plain(local), "length": length}
    return json.dumps(record).encode() + b"\n"


def listen(make_socket, kind, port):
    """One socket for both families; an IPv4 peer shows up as ::ffff:a.b.c.d."""
    sock = make_socket(socket.AF_INET6, kind)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    sock.bind(("::", port))
    return sock


def read_request(conn):
    """Reads one HTTP request and returns the size of its body."""
    data = b""
    while b"\r\n\r\n" not in data:
        block = conn.recv(65536)
        if not block:
            return len(data)
        data += block
    head, _, body = data.partition(b"\r\n\r\n")
    expected = 0
    for line in head.split(b"\r\n"):
        key, _, value = line.partition(b":")
        if key.lower() == b"content-length":
            expected = int(value)
    length = len(body)
    while length < expected:
        block = conn.recv(65536)
        if not block:
            break
        length += len(block)
    return length


def serve_connection(name, conn, peer):
    with conn:
        try:
            conn.settimeout(REQUEST_TIMEOUT_S)
            local = conn.getsockname()
            body = answer(name, local[1], peer, local[0], read_request(conn))
            head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
            conn.sendall(head.encode() + b"Connection: close\r\n\r\n" + body)
        except (OSError, ValueError):
            pass  # the client went away or sent nonsense; the next one is served all the same


def echo_connection(name, conn, _peer):
    conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        with conn, conn.makefile("rb") as lines:
            for line in lines:
                conn.sendall(f"{name} ".encode() + line)
    except OSError:
        pass  # the client went away


def serve_tcp(name, sock, serve_one):
    while True:
        conn, peer = sock.accept()
        threading.Thread(target=serve_one, args=(name, conn, peer), daemon=True).start()


def tell(name, port, peer, local, data):
    return answer(name, port, peer, local, len(data))


def echo(name, _port, _peer, _local, data):
    return f"{name} ".encode() + data


def serve_udp(name, sock, reply_to):
    """Replies from the address that was asked: a node has several, and the reply must match the request's flow."""
    port = sock.getsockname()[1]
    while True:
        try:
            data, ancillary, _, peer = sock.recvmsg(65536, socket.CMSG_SPACE(20))
            asked = next(value for level, kind, value in ancillary if kind == IPV6_PKTINFO)
            local = socket.inet_ntop(socket.AF_INET6, asked[:16])
            reply = reply_to(name, port, peer, local, data)
            # Index 0: let routing choose the device; only the source address is pinned.
            pinned = struct.pack("16sI", asked[:16], 0)
            sock.sendmsg([reply], [(socket.IPPROTO_IPV6, IPV6_PKTINFO, pinned)], 0, peer)
        except OSError:
            continue  # an ICMP error about an earlier reply


def serve(name, make_socket, args):
    """Opens the ports of one pod; threads of their own serve them from then on."""
    for ports, serve_one in ((args.tcp, serve_connection), (args.echo, echo_connection)):
        for port in filter(None, ports.split(",")):
            sock = listen(make_socket, socket.SOCK_STREAM, int(port))
            sock.listen(256)
            threading.Thread(target=serve_tcp, args=(name, sock, serve_one), daemon=True).start()
    for ports, reply_to in ((args.udp, tell), (args.echo, echo)):
        for port in filter(None, ports.split(",")):
            sock = listen(make_socket, socket.SOCK_DGRAM, int(port))
            sock.setsockopt(socket.IPPROTO_IPV6, IPV6_RECVPKTINFO, 1)
            threading.Thread(target=serve_udp, args=(name, sock, reply_to), daemon=True).start()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--name", required=True, action="append")
    parser.add_argument("--netns", action="append", help="serve in this network namespace")
    parser.add_argument("--tcp", default="", help="ports, separated by commas")
    parser.add_argument("--udp", default="", help="ports, separated by commas")
    parser.add_argument("--echo", default="", help="ports, separated by commas, for TCP and UDP")
    args = parser.parse_args()

    if args.netns:
        sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
        from lab import netns  # noqa: PLC0415  (only needed here; the script also runs alone)

        for name, space in zip(args.name, args.netns, strict=True):
            serve(name, netns.Space(space).socket, args)
    else:
        serve(args.name[0], socket.socket, args)
    print("ready", flush=True)
    sys.stdin.buffer.read()
    os._exit(0)  # the threads are blocked in the kernel; there is nothing to flush


if __name__ == "__main__":
    main()
