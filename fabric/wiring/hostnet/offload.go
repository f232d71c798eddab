package hostnet

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ethtool commands (linux/ethtool.h) that read and set one offload each.
const (
	getTxChecksum = 0x16
	setTxChecksum = 0x17
	getGRO        = 0x2b
	setGRO        = 0x2c
	getTSO        = 0x1e
	setTSO        = 0x1f
	getGSO        = 0x23
	setGSO        = 0x24
)

// offloads lists what must be off where kernel traffic crosses the fabric: switches forward frames as they are, so a
// checksum left unfinished or a packet larger than the MTU would never be mended.
var offloads = []struct {
	name     string
	get, set uint32
}{
	{"GRO", getGRO, setGRO},
	{"TSO", getTSO, setTSO},
	{"GSO", getGSO, setGSO},
	{"tx checksum", getTxChecksum, setTxChecksum},
}

// ethtoolValue is struct ethtool_value.
type ethtoolValue struct{ cmd, data uint32 }

// OffloadsOff switches off transmit checksum, TSO, GSO and GRO of a port.
func OffloadsOff(name string) error {
	return eachOffload(name, func(fd int, o string, get, set uint32) error {
		err := ethtool(fd, name, &ethtoolValue{cmd: set})
		if errors.Is(err, unix.EOPNOTSUPP) {
			return nil // a device without the offload
		}
		if err != nil {
			return fmt.Errorf("switch off %s of %s: %w", o, name, err)
		}
		return nil
	})
}

// Offloads lists those of the offloads that OffloadsOff deals with which are on.
func Offloads(name string) (on []string, err error) {
	err = eachOffload(name, func(fd int, o string, get, set uint32) error {
		v := ethtoolValue{cmd: get}
		err := ethtool(fd, name, &v)
		if err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
			return fmt.Errorf("read %s of %s: %w", o, name, err)
		}
		if v.data != 0 {
			on = append(on, o)
		}
		return nil
	})
	return on, err
}

func eachOffload(name string, do func(fd int, offload string, get, set uint32) error) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("offloads of %s: socket: %w", name, err)
	}
	defer unix.Close(fd)
	for _, o := range offloads {
		if err := do(fd, o.name, o.get, o.set); err != nil {
			return err
		}
	}
	return nil
}

// ethtool runs one command on a device. The request is struct ifreq with a pointer to the value.
func ethtool(fd int, name string, v *ethtoolValue) error {
	var req struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}
	if len(name) >= len(req.name) {
		return unix.EINVAL
	}
	copy(req.name[:], name)
	req.data = unsafe.Pointer(v)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&req)))
	if errno != 0 {
		return errno
	}
	return nil
}
