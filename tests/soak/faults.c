// What happens to a program on a machine in trouble, for one that is started with this library in LD_PRELOAD.
//
// KP_FAULTS names a folder. A file in it switches a fault on, for as long as it is there:
//   enobufs  every third read from a netlink socket fails as it does when the kernel had to drop messages
//   clock    the wall clock is off by the seconds that the file holds
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
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

static int messages_are_lost(int fd) {
  static __thread unsigned reads;
  int domain = 0;
  socklen_t size = sizeof domain;
  if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0 || domain != AF_NETLINK) return 0;
  FILE* fault = open_fault("enobufs");
  if (fault == NULL) return 0;
  fclose(fault);
  if (++reads % 3 != 0) return 0;
  errno = ENOBUFS;
  return 1;
}

ssize_t recvmsg(int fd, struct msghdr* message, int flags) {
  return messages_are_lost(fd) ? -1 : REAL(recvmsg)(fd, message, flags);
}

ssize_t recvfrom(int fd, void* buffer, size_t size, int flags, struct sockaddr* from,
                 socklen_t* length) {
  return messages_are_lost(fd) ? -1 : REAL(recvfrom)(fd, buffer, size, flags, from, length);
}

ssize_t recv(int fd, void* buffer, size_t size, int flags) {
  return messages_are_lost(fd) ? -1 : REAL(recv)(fd, buffer, size, flags);
}

static long clock_error(void) {
  long seconds = 0;
  const int saved = errno;
  FILE* fault = open_fault("clock");
  if (fault != NULL) {
    if (fscanf(fault, "%ld", &seconds) != 1) seconds = 0;
    fclose(fault);
  }
  errno = saved;
  return seconds;
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
