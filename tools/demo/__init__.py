"""What `make run` shows: the proxy at work in a small cluster of network namespaces.

The cluster itself is tools/lab's. Here are the bank that runs on it (bank.py), the show (show.py), and
what the show is made of: requests (traffic.py), the way through the rules (follow.py), output (page.py).
"""
