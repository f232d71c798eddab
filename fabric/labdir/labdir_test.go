package labdir

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// testPlace puts base and shm into fresh directories; base is moved off tmpfs by the caller where the machine allows.
func testPlace(t *testing.T) place {
	t.Helper()
	root := t.TempDir()
	p := place{uid: os.Geteuid(), run: filepath.Join(root, "run"), tmp: filepath.Join(root, "tmp"), shm: filepath.Join(root, "shm")}
	for _, d := range []string{p.run, p.tmp, p.shm} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func TestCheckName(t *testing.T) {
	for name, ok := range map[string]bool{
		"a": true, "fat-tree-2x4": true, "0": true, "a234567890123456789012345678901": true,
		"": false, "-a": false, "A": false, "a_b": false, "a/b": false, "..": false, "a2345678901234567890123456789012": false, "a\n": false,
	} {
		err := CheckName(name)
		if (err == nil) != ok || err != nil && !errors.Is(err, ErrName) {
			t.Errorf("CheckName(%q) = %v, want ok=%v", name, err, ok)
		}
	}
}

func TestBaseFollowsUserAndEnvironment(t *testing.T) {
	p := testPlace(t)
	own := filepath.Join(t.TempDir(), "xdg")
	if err := os.Mkdir(own, 0o700); err != nil {
		t.Fatal(err)
	}
	root, user, xdg, moved := p, p, p, p
	root.uid, user.uid, xdg.uid, xdg.runtime = 0, 1234, 1234, own
	moved.own = filepath.Join(own, "labs")
	for _, c := range []struct {
		p    place
		want string
	}{
		{root, filepath.Join(p.run, "uetlab")},
		{user, filepath.Join(p.tmp, "uetlab-1234")},
		{moved, moved.own},
		{xdg, filepath.Join(own, "uetlab")},
	} {
		got, err := c.p.base()
		if err != nil || got != c.want {
			t.Errorf("base = %q, %v; want %q", got, err, c.want)
		}
	}
}

func TestBaseRefusesWhatBelongsToSomebodyElse(t *testing.T) {
	p := testPlace(t)
	if _, err := p.base(); err != nil {
		t.Fatal(err)
	}
	other := p
	other.uid++
	dir, err := p.base()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.private(dir); err == nil {
		t.Error("took a directory of another user")
	}
	link := filepath.Join(p.tmp, "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if err := p.private(link); err == nil {
		t.Error("took a symbolic link")
	}
}

func TestBaseShutsOutOthers(t *testing.T) {
	p := testPlace(t)
	dir, err := p.base()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := p.base(); err != nil {
		t.Fatal(err)
	}
	if fi, err := os.Stat(dir); err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v; want 0700", fi.Mode(), err)
	}
}

func TestCreateOpenListRemove(t *testing.T) {
	p := testPlace(t)
	if _, err := p.open("one"); !errors.Is(err, ErrMissing) {
		t.Fatalf("open before create: %v", err)
	}
	d, err := p.create("one")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.create("one"); !errors.Is(err, ErrExists) {
		t.Fatalf("second create: %v", err)
	}
	if _, err := p.create("two"); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{d.Logs(), d.Pages(), d.Node()} {
		if fi, err := os.Stat(path); err != nil || !fi.IsDir() || fi.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", path, fi, err)
		}
	}
	checkList(t, p, "one", "two")
	if err := d.Remove(); err != nil {
		t.Fatal(err)
	}
	if err := d.Remove(); err != nil {
		t.Errorf("second remove: %v", err)
	}
	if d.Exists() {
		t.Error("something is left")
	}
	checkList(t, p, "two")
}

func checkList(t *testing.T, p place, want ...string) {
	t.Helper()
	dirs, err := p.list()
	if err != nil {
		t.Fatal(err)
	}
	if len(dirs) != len(want) {
		t.Fatalf("list has %d labs, want %v", len(dirs), want)
	}
	for i, d := range dirs {
		if d.Lab != want[i] {
			t.Errorf("list[%d] = %s, want %s", i, d.Lab, want[i])
		}
	}
}

func TestNodeDirectoryFollowsTheFileSystem(t *testing.T) {
	p := testPlace(t)
	tmpfs, err := onTmpfs(p.run)
	if err != nil {
		t.Fatal(err)
	}
	d, err := p.create("lab")
	if err != nil {
		t.Fatal(err)
	}
	base, err := p.base()
	if err != nil {
		t.Fatal(err)
	}
	want := filepath.Join(p.shmBase(base), "lab", "node")
	if tmpfs {
		want = filepath.Join(d.Path, "node")
	}
	if d.Node() != want {
		t.Errorf("node directory %s, want %s (tmpfs %v)", d.Node(), want, tmpfs)
	}
	if err := os.RemoveAll(d.Path); err != nil { // somebody deleted the lab directory by hand
		t.Fatal(err)
	}
	if got := d.Exists(); got == tmpfs {
		t.Errorf("Exists = %v after the lab directory went, tmpfs %v", got, tmpfs)
	}
	if !tmpfs {
		checkList(t, p, "lab")
	}
	if err := d.Remove(); err != nil || d.Exists() {
		t.Errorf("remove: %v, left %v", err, d.Exists())
	}
	if left, err := os.ReadDir(p.shm); err != nil || len(left) > 0 {
		t.Errorf("%d things left in shm, %v", len(left), err)
	}
}

func TestNodeDirectoriesOfTwoPlacesAreApart(t *testing.T) {
	p := testPlace(t)
	q := p
	q.own = filepath.Join(p.tmp, "own")
	a, err := p.create("lab")
	if err != nil {
		t.Fatal(err)
	}
	b, err := q.create("lab")
	if err != nil {
		t.Fatal(err)
	}
	if a.Node() == b.Node() {
		t.Errorf("two labs share %s", a.Node())
	}
}

func TestSocketPathsFit(t *testing.T) {
	p := testPlace(t)
	long := filepath.Join(p.run, "a-very-long-name-that-leaves-no-room-for-a-socket-beneath-it-at-all-so-that-bind-would-fail", "uetlab", "x")
	if err := p.fill(&Dir{Lab: "x", Path: long, node: filepath.Join(long, "node")}); err == nil {
		t.Error("made a lab whose sockets cannot be bound")
	}
}

func TestLockKeepsOthersOut(t *testing.T) {
	p := testPlace(t)
	d, err := p.create("lab")
	if err != nil {
		t.Fatal(err)
	}
	l, err := d.Lock()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Lock(); !errors.Is(err, ErrLocked) {
		t.Fatalf("second lock: %v", err)
	}
	if err := l.Unlock(); err != nil {
		t.Fatal(err)
	}
	if l, err = d.Lock(); err != nil {
		t.Fatal(err)
	}
	if err := l.Unlock(); err != nil {
		t.Error(err)
	}
}
