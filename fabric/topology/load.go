package topology

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Parse reads a topology file's text; file is what problems call it. The error, if any, is Problems: everything
// that is wrong, in the form of the file and in what it describes, as far as the one does not hide the other.
func Parse(file string, data []byte) (*Spec, error) {
	s, d := decode(file, data)
	if len(d.problems) == 0 {
		if _, err := BuildPlan(s); err != nil {
			return nil, err
		}
		return s, nil
	}
	problems := d.problems
	if !d.fabricBroken {
		s.partial, s.entryBroken = true, d.entryBroken
		problems = append(problems, newDraft(s).problems...)
	}
	return nil, problems.err()
}

// Load reads and checks a topology file. The error is Problems, or what the operating system said.
func Load(path string) (*Spec, error) {
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		return nil, fmt.Errorf("topology file (%s): is a folder; name a file in it", path)
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("topology file (%s): %w; check the path", path, fs.ErrNotExist)
	}
	if err != nil {
		return nil, fmt.Errorf("topology file: %w", err)
	}
	return Parse(path, data)
}
