/* Sockets: what may be read, and who reads it. */
#include "network.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

static int epoll = -1;
static unsigned int closed; /* how many channels have been closed so far */

void channel_watch(struct channel *channel)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = channel };

	if (epoll < 0)
		epoll = epoll_create1(EPOLL_CLOEXEC);
	if (epoll_ctl(epoll, EPOLL_CTL_ADD, channel->fd, &event))
		refuse("cannot watch a socket: %s", strerror(errno));
}

void channel_close(struct channel *channel)
{
	if (channel->fd >= 0)
		close(channel->fd);
	channel->fd = -1;
	closed++;
}

int listen_at(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (strlen(path) >= sizeof address.sun_path)
		refuse("%s: a socket's path has at most %zu octets", path, sizeof address.sun_path - 1);
	strcpy(address.sun_path, path);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) || listen(fd, MAX_KERNELS))
		refuse("cannot listen at %s: %s", path, strerror(errno));
	return fd;
}

int accept_from(int listening, double timeout_s)
{
	struct timeval timeout = { .tv_sec = timeout_s, .tv_usec = 1 };
	int fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC);

	if (fd < 0)
		refuse("cannot accept a connection: %s", strerror(errno));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
	return fd;
}

bool channels_serve(double timeout_s)
{
	struct epoll_event events[16];
	unsigned int before = closed;
	int count, n;

	do
		count = epoll_wait(epoll, events, 16, timeout_s * 1000);
	while (count < 0 && errno == EINTR);
	/* After a close the rest may name channels that are gone; it is told again the next time. */
	for (n = 0; n < count && closed == before; n++) {
		struct channel *channel = events[n].data.ptr;

		channel->readable(channel);
	}
	return count > 0;
}
