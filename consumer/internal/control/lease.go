package control

import (
	"reflect"
	"sync"
)

// controls are those of this process.
var controls = struct {
	mu sync.Mutex
	of map[key]*shared
}{of: map[key]*shared{}}

type key struct {
	store        Store
	vhost, queue string
}

type shared struct {
	*Control
	users int
}

// Lease is the Control that a Run or a Consume uses until it releases it.
type Lease struct {
	key    key
	shared *shared
}

// Of returns the Control of a queue: that of the lease, that of another consumer of the process, or one that create
// returns, which it runs. It returns nil if the store is not comparable.
func (l *Lease) Of(store Store, vhost, queue string, create func() *Control) *Control {
	if !reflect.ValueOf(store).Comparable() {
		return nil
	}
	wanted := key{store, vhost, queue}
	if l.shared != nil && l.key == wanted {
		return l.shared.Control
	}
	l.Release()
	controls.mu.Lock()
	defer controls.mu.Unlock()
	l.key, l.shared = wanted, controls.of[wanted]
	if l.shared == nil {
		l.shared = &shared{Control: create()}
		controls.of[wanted] = l.shared
		go l.shared.Run()
	}
	l.shared.users++
	return l.shared.Control
}

// Release stops the Control that no other consumer uses, and waits for that.
func (l *Lease) Release() {
	if l.shared == nil {
		return
	}
	controls.mu.Lock()
	l.shared.users--
	last := l.shared.users == 0
	if last {
		delete(controls.of, l.key)
	}
	controls.mu.Unlock()
	if last {
		l.shared.Stop()
	}
	l.shared = nil
}
