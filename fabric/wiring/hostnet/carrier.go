package hostnet

import (
	"fmt"

	"golang.org/x/sys/unix"
)

const getLink = 0x0a // ETHTOOL_GLINK

// Carrier says whether both ends of a link are up, so that what is sent arrives. Newer kernels handle a pending carrier
// event of the link for the asking; the operational state (IFF_RUNNING) instead may come a second late, since the kernel
// handles most carrier events in batches of that rhythm.
func Carrier(name string) (bool, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false, fmt.Errorf("carrier of %s: socket: %w", name, err)
	}
	defer unix.Close(fd)
	v := ethtoolValue{cmd: getLink}
	if err := ethtool(fd, name, &v); err != nil {
		return false, fmt.Errorf("carrier of %s: %w", name, err)
	}
	return v.data != 0, nil
}
