"""The rows of the table that bench/ipvs prints, shared by its two halves."""

START = "start of the process to all in the kernel, s"
HAVING = "having the objects to all in the kernel, s"
SYNC = "the first sync of IPv4 by its own metric, s"
PROXY_CPU = "CPU of the proxy until then, s"
PROGRAMS_CPU = "CPU of the programs that it calls until then, s"
MEMORY = "memory then, MB"
OWN = "of it its own, MB"
PEAK = "its peak until then, MB"
CHANGE_MEDIAN = "one endpoint, write to kernel, median, s"
CHANGE_P99 = "the same, p99, s"
CHANGE_CPU = "CPU for one endpoint, proxy and programs, s"
MESSAGES = "netlink messages for one endpoint"
PROGRAMS = "programs for one endpoint"
MORE = "more than"
ROWS = [START, HAVING, SYNC, PROXY_CPU, PROGRAMS_CPU, MEMORY, OWN, PEAK, CHANGE_MEDIAN, CHANGE_P99, CHANGE_CPU, MESSAGES, PROGRAMS]
AIMS = {START: "ours / real 0.1", HAVING: "0.1", MEMORY: "0.2", CHANGE_MEDIAN: "0.05", MESSAGES: "ours 10, the same for both sizes"}
