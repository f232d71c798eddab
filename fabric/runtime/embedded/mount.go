package embedded

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// bindFile binds a file or device of the host to a new file.
func bindFile(from, to string) error {
	fd, err := unix.Open(to, unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return fmt.Errorf("create %s: %w", to, err)
	}
	unix.Close(fd)
	if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind %s: %w", from, err)
	}
	return nil
}

// readOnly makes a bind mount and all below it read-only. Flags that a user namespace may not clear stay.
func readOnly(path string) error {
	err := unix.MountSetattr(unix.AT_FDCWD, path, unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
	if !errors.Is(err, unix.ENOSYS) {
		return wrap("make read-only", path, err)
	}
	// Before Linux 5.12, or under a filter that does not know the call: the top mount only, its flags repeated.
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return wrap("statfs", path, err)
	}
	flags := uintptr(unix.MS_REMOUNT | unix.MS_BIND | unix.MS_RDONLY)
	for st1, ms := range map[int64]uintptr{
		unix.ST_NOSUID: unix.MS_NOSUID, unix.ST_NODEV: unix.MS_NODEV, unix.ST_NOEXEC: unix.MS_NOEXEC,
		unix.ST_NOATIME: unix.MS_NOATIME, unix.ST_NODIRATIME: unix.MS_NODIRATIME, unix.ST_RELATIME: unix.MS_RELATIME,
	} {
		if int64(st.Flags)&st1 != 0 {
			flags |= ms
		}
	}
	return wrap("make read-only", path, unix.Mount("", path, "", flags, ""))
}

// showHost makes a directory or link of the host's root appear in the new root, read-only. What the host lacks is
// left out. Names in /etc that are the node's own stay the node's.
func showHost(path string) error {
	target := base + path
	st, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case st.Mode()&os.ModeSymlink != 0:
		to, err := os.Readlink(path)
		if err != nil {
			return err
		}
		return os.Symlink(to, target)
	case !st.IsDir():
		return nil
	}
	if err := unix.Mkdir(target, 0o755); err != nil && err != unix.EEXIST {
		return wrap("mkdir", target, err)
	}
	if path == "/etc" {
		return showEtc(target)
	}
	if err := unix.Mount(path, target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return wrap("bind", path, err)
	}
	return readOnly(target)
}

// showEtc links every entry of the host's /etc into the node's, except those that name the machine.
func showEtc(target string) error {
	const behind = base + "/.etc" // at this depth, so that links like ../usr/lib/os-release still lead there
	if err := unix.Mkdir(behind, 0o755); err != nil {
		return wrap("mkdir", behind, err)
	}
	if err := unix.Mount("/etc", behind, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return wrap("bind", "/etc", err)
	}
	if err := readOnly(behind); err != nil {
		return err
	}
	entries, err := os.ReadDir("/etc")
	if err != nil {
		return err
	}
	for _, e := range entries {
		switch e.Name() {
		case "hosts", "hostname":
			continue
		case "passwd", "group": // the host's users own the host's files
			if err := os.Remove(target + "/" + e.Name()); err != nil {
				return err
			}
		}
		if err := os.Symlink("/.etc/"+e.Name(), target+"/"+e.Name()); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o555)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return wrap("copy the binary to", to, errors.Join(err, out.Close()))
}

func wrap(what, path string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", what, path, err)
}
