// What happens to a program on a machine in trouble, for one that is started with this library in LD_PRELOAD.
//
// KP_FAULTS names a folder. A file in it switches a fault on, for as long as it is there:
//   enobufs  every third read from a netlink socket fails as it does when the kernel had to drop messages
//   answers  holds a number: so many answers from netlink are dropped, as the kernel does when there is no room for them
//   sends    holds an errno and a number: so many sends to netlink sockets fail with it
//   clock    the wall clock is off by the seconds that the file holds
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/netlink.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static FILE* open_fault(const char* name) {
  char path[4096];
  const char* folder = getenv("KP_FAULTS");
  if (folder == NULL) return NULL;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return fopen(path, "re");
}

// Reads up to two numbers that a fault holds; returns how many, and -1 if it is off.
static int read_fault(const char* name, long* first, long* second) {
  const int saved = errno;
  FILE* fault = open_fault(name);
  int count = -1;
  if (fault != NULL) {
    count = fscanf(fault, "%ld %ld", first, second);
    if (count < 0) count = 0;
    fclose(fault);
  }
  errno = saved;
  return count;
}

static int is_netlink(int fd) {
  int domain = 0;
  socklen_t size = sizeof domain;
  return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_NETLINK;
}

// Hears of what others do, and does not ask.
static int is_listener(int fd) {
  unsigned groups[8] = {0};
  socklen_t size = sizeof groups;
  if (getsockopt(fd, SOL_NETLINK, NETLINK_LIST_MEMBERSHIPS, groups, &size) != 0) return 0;
  for (size_t at = 0; at < sizeof groups / sizeof groups[0]; ++at)
    if (groups[at] != 0) return 1;
  return 0;
}

static int messages_are_lost(int fd) {
  static __thread unsigned reads;
  long none;
  if (!is_netlink(fd) || read_fault("enobufs", &none, &none) < 0) return 0;
  if (++reads % 3 != 0) return 0;
  errno = ENOBUFS;
  return 1;
}

// Whether the message that was read just now is to be dropped. Reading fails then as it does when the kernel drops one.
static int drop_answer(int fd, ssize_t size) {
  static atomic_long dropped;
  long times = 0, none;
  if (size <= 0 || !is_netlink(fd) || is_listener(fd)) return 0;
  if (read_fault("answers", &times, &none) < 1) {
    dropped = 0;
    return 0;
  }
  if (atomic_fetch_add(&dropped, 1) >= times) return 0;
  errno = ENOBUFS;
  return 1;
}

ssize_t recvmsg(int fd, struct msghdr* message, int flags) {
  if (messages_are_lost(fd)) return -1;
  const ssize_t size = REAL(recvmsg)(fd, message, flags);
  return drop_answer(fd, size) ? -1 : size;
}

ssize_t recvfrom(int fd, void* buffer, size_t size, int flags, struct sockaddr* from,
                 socklen_t* length) {
  if (messages_are_lost(fd)) return -1;
  const ssize_t got = REAL(recvfrom)(fd, buffer, size, flags, from, length);
  return drop_answer(fd, got) ? -1 : got;
}

ssize_t recv(int fd, void* buffer, size_t size, int flags) {
  if (messages_are_lost(fd)) return -1;
  const ssize_t got = REAL(recv)(fd, buffer, size, flags);
  return drop_answer(fd, got) ? -1 : got;
}

static int send_fails(int fd) {
  static atomic_long failed;
  long error = 0, times = 0;
  if (!is_netlink(fd)) return 0;
  if (read_fault("sends", &error, &times) < 2) {
    failed = 0;
    return 0;
  }
  if (atomic_fetch_add(&failed, 1) >= times) return 0;
  errno = (int)error;
  return 1;
}

ssize_t sendto(int fd, const void* buffer, size_t size, int flags, const struct sockaddr* to,
               socklen_t length) {
  return send_fails(fd) ? -1 : REAL(sendto)(fd, buffer, size, flags, to, length);
}

ssize_t sendmsg(int fd, const struct msghdr* message, int flags) {
  return send_fails(fd) ? -1 : REAL(sendmsg)(fd, message, flags);
}

static long clock_error(void) {
  long seconds = 0, none;
  return read_fault("clock", &seconds, &none) < 1 ? 0 : seconds;
}

int clock_gettime(clockid_t clock, struct timespec* now) {
  const int result = REAL(clock_gettime)(clock, now);
  if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) now->tv_sec += clock_error();
  return result;
}

int gettimeofday(struct timeval* restrict now, void* restrict zone) {
  const int result = REAL(gettimeofday)(now, zone);
  now->tv_sec += clock_error();
  return result;
}

time_t time(time_t* result) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (result != NULL) *result = now.tv_sec;
  return now.tv_sec;
}
