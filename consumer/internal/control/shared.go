package control

import (
	"log/slog"
	"sync"

	"github.com/strikesmq/strikes/counter"
)

// controls are those of this process.
var controls = struct {
	mu sync.Mutex
	of map[key]*Control
}{of: map[key]*Control{}}

type key struct {
	store        Store
	vhost, queue string
}

// Of returns the Control of a queue, which all consumers of the process share. Call release once when it is not used
// any more: the last one stops it, and waits for that.
func Of(store Store, vhost, queue string, reader counter.Reader, logger *slog.Logger) (k *Control, release func()) {
	wanted := key{store, vhost, queue}
	controls.mu.Lock()
	defer controls.mu.Unlock()
	if k = controls.of[wanted]; k == nil {
		k = New(store, vhost, queue, reader, logger)
		controls.of[wanted] = k
		go k.Run()
	}
	k.users++
	return k, func() {
		controls.mu.Lock()
		k.users--
		last := k.users == 0
		if last {
			delete(controls.of, wanted)
		}
		controls.mu.Unlock()
		if last {
			k.Stop()
		}
	}
}
