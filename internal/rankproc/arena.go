package rankproc

// arena hands out memory that a process and its FEP share, in pieces: each request for shared memory is a descriptor and a mapping.
type arena struct {
	take  func(n int) ([]byte, error)
	chunk []byte
	zero  []byte
}

const (
	arenaChunk = 1 << 20
	arenaLarge = 64 << 10 // pieces from here on have memory of their own
	arenaAlign = 64
)

// alloc gives n zeroed bytes. When there is no memory they are ordinary ones, with an error.
func (a *arena) alloc(n int64) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	if n >= arenaLarge {
		return a.get(n)
	}
	size := (n + arenaAlign - 1) &^ (arenaAlign - 1)
	if size > int64(len(a.chunk)) {
		b, err := a.get(arenaChunk)
		if err != nil {
			return make([]byte, n), err
		}
		a.chunk = b
	}
	b := a.chunk[:n:n]
	a.chunk = a.chunk[size:]
	return b, nil
}

func (a *arena) get(n int64) ([]byte, error) {
	b, err := a.take(int(n))
	if err != nil {
		return make([]byte, n), err
	}
	return b, nil
}

// zeros gives n bytes that may be shared with all other zeros.
func (a *arena) zeros(n int64) ([]byte, error) {
	if n > int64(len(a.zero)) {
		b, err := a.get(n)
		if err != nil {
			return b, err
		}
		a.zero = b
	}
	return a.zero[:n:n], nil
}
