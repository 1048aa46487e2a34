package servers

import (
	"net"
	"slices"
	"strconv"
	"testing"
)

func TestPortsAreReserved(t *testing.T) {
	const half = 25
	ports, kept, err := reservePorts(half)
	if err != nil {
		t.Fatal(err)
	}
	more, alsoKept, err := reservePorts(half)
	if err != nil {
		t.Fatal(err)
	}
	all := slices.Sorted(slices.Values(slices.Concat(ports, more)))
	if n := len(slices.Compact(all)); n != 2*half || all[0] < firstPort || all[n-1] > lastPort {
		t.Errorf("%d different ports of %d in %d-%d: %v", n, 2*half, firstPort, lastPort, all)
	}

	l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(ports[0]))
	if err != nil {
		t.Fatalf("a reserved port is not free for its server: %v", err)
	}
	if again, err := reserve(ports[0]); err == nil {
		t.Errorf("%d was reserved twice", ports[0])
		_ = again.Close()
	}
	if err := CloseAll(slices.Concat(kept, alsoKept)); err != nil {
		t.Fatal(err)
	}
	if again, err := reserve(ports[0]); err == nil {
		t.Errorf("%d was reserved while a server listened there", ports[0])
		_ = again.Close()
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := reserve(ports[0])
	if err != nil {
		t.Fatalf("a port that was given back: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}
