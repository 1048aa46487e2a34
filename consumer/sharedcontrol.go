package consumer

import (
	"reflect"
	"sync"
)

// controls are those of this process.
var controls = struct {
	mu sync.Mutex
	of map[controlKey]*sharedControl
}{of: map[controlKey]*sharedControl{}}

type controlKey struct {
	store        controller
	vhost, queue string
}

type sharedControl struct {
	*control
	users int
}

// heldControl is the control that a Run or a Consume uses until it releases it.
type heldControl struct {
	key    controlKey
	shared *sharedControl
}

// of returns the control of a queue, which it starts if no other consumer of the process has.
func (h *heldControl) of(s *session) *control {
	store, ok := s.Counter.(controller)
	if !ok || !reflect.ValueOf(store).Comparable() {
		return nil
	}
	key := controlKey{store, s.vhost, s.Queue}
	if h.shared != nil && h.key == key {
		return h.shared.control
	}
	h.release()
	controls.mu.Lock()
	defer controls.mu.Unlock()
	h.key, h.shared = key, controls.of[key]
	if h.shared == nil {
		h.shared = &sharedControl{control: newControl(s, store)}
		controls.of[key] = h.shared
		go h.shared.run()
	}
	h.shared.users++
	return h.shared.control
}

// current returns the control of the session before, nil if there was none.
func (h *heldControl) current() *control {
	if h.shared == nil {
		return nil
	}
	return h.shared.control
}

// release stops the control that no other consumer uses, and waits for that.
func (h *heldControl) release() {
	if h.shared == nil {
		return
	}
	controls.mu.Lock()
	h.shared.users--
	last := h.shared.users == 0
	if last {
		delete(controls.of, h.key)
	}
	controls.mu.Unlock()
	if last {
		close(h.shared.stop)
		<-h.shared.done
	}
	h.shared = nil
}
