package control

import (
	"testing"

	"github.com/uetlab/uetlab/internal/vt"
)

// TestRestFallsBehindTheWall: a lab at rest makes up for what catching up took, but not for so much that it never would.
func TestRestFallsBehindTheWall(t *testing.T) {
	for took, want := range map[int64]vt.Time{0: 5, int64(mostLag) - 1: 5, int64(mostLag): 900, 10 * int64(mostLag): 900} {
		c := clockwork{restVirt: 900, restWall: 800} // as rest has left it
		if c.follow(3, 5, took); c.restVirt != want || (c.restWall == 3) != (want == 5) {
			t.Errorf("after %d ns: %d at %d, want %d", took, c.restVirt, c.restWall, want)
		}
	}
}
