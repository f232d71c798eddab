package shm

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// tmpfsMagic is the file system of memfds that are not of huge pages.
const tmpfsMagic = unix.TMPFS_MAGIC

// ErrSeals says that a descriptor is not memory that can safely be shared.
var ErrSeals = errors.New("shm: not a memfd sealed with F_SEAL_SHRINK, or too short")

// Create makes a memfd of size bytes that can neither shrink nor grow, and maps it.
func Create(name string, size int) (fd int, mem []byte, err error) {
	if fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING); err != nil {
		return -1, nil, fmt.Errorf("shm: memfd: %w", err)
	}
	err = unix.Ftruncate(fd, int64(size))
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	}
	if err == nil {
		mem, err = unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err != nil {
		unix.Close(fd)
		return -1, nil, fmt.Errorf("shm: memory of %d bytes: %w", size, err)
	}
	return fd, mem, nil
}

// Map maps size bytes of a memfd that the other side made. It refuses, with ErrSeals, one that could shrink: access beyond its end
// would kill this process.
func Map(fd int, size int) ([]byte, error) {
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil || seals&unix.F_SEAL_SHRINK == 0 {
		return nil, ErrSeals
	}
	var st unix.Stat_t
	var fs unix.Statfs_t
	if err := errors.Join(unix.Fstat(fd, &st), unix.Fstatfs(fd, &fs)); err != nil {
		return nil, fmt.Errorf("shm: %w", err)
	}
	if st.Size < int64(size) || size <= 0 || fs.Type != tmpfsMagic {
		return nil, ErrSeals
	}
	mem, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("shm: map %d bytes: %w", size, err)
	}
	return mem, nil
}

// Unmap gives memory of Create or Map back.
func Unmap(mem []byte) {
	if mem != nil {
		_ = unix.Munmap(mem)
	}
}
