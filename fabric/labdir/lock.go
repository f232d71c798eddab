package labdir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ErrLocked says that the lab has a daemon.
var ErrLocked = errors.New("lab is busy")

// Lock is a held lock on a lab.
type Lock struct{ f *os.File }

// Lock takes the lab's lock, which the kernel drops when the process ends. The error wraps ErrLocked when another process
// has it.
func (d *Dir) Lock() (*Lock, error) {
	path := filepath.Join(d.Path, "lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock of lab %s: %w", d.Lab, err)
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err == nil {
		return &Lock{f}, nil
	}
	_ = f.Close() // nothing was written
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, fmt.Errorf("%w: %s has a daemon", ErrLocked, d.Lab)
	}
	return nil, fmt.Errorf("lock of lab %s: %w", d.Lab, err)
}

// Unlock gives the lock back. The lab directory may be gone by then.
func (l *Lock) Unlock() error { return l.f.Close() }
