package counter

import (
	"strings"
	"testing"
)

// FuzzKeys: no two messages share a key, and only the queue decides on the slot.
func FuzzKeys(f *testing.F) {
	f.Add("/", "orders", "1", "", "/", "orders", "1", "1@1700000000")
	f.Add("/", "orders", "1", "", "//orders", "", "1", "")
	f.Add("a", "b/c", "1", "", "a/b", "c", "1", "")
	f.Add("a", "b}", "1", "", "a", "b", "}1", "")
	f.Add("a", "b", "1:0", "", "a", "b", "1", "0")
	f.Add("", "%2F", "", "\x00", "%2F", "", "\x00", "")
	f.Fuzz(func(t *testing.T, vhost, queue, id, generation, vhost2, queue2, id2, generation2 string) {
		a := Message{VHost: vhost, Queue: queue, ID: id, Generation: generation}
		b := Message{VHost: vhost2, Queue: queue2, ID: id2, Generation: generation2}
		o := (*Options)(nil).withDefaults()
		ka, kb := o.keys(a), o.keys(b)
		if (a == b) != (ka.record == kb.record) {
			t.Errorf("%+q and %+q: %q and %q", a, b, ka.record, kb.record)
		}
		sameQueue := a.VHost == b.VHost && a.Queue == b.Queue
		if sameQueue != (ka.index == kb.index) || sameQueue != (ka.override == kb.override) {
			t.Errorf("%+q and %+q: %q and %q", a, b, ka, kb)
		}
		for _, key := range []string{ka.record, ka.index, ka.override, ka.tombstones} {
			if !strings.HasPrefix(key, DefaultPrefix+":{") {
				t.Errorf("%q begins with another prefix", key)
			}
			if strings.Count(key, "{") != 1 || strings.Count(key, "}") != 1 {
				t.Errorf("%q has not exactly one hash tag", key)
			}
			if tag := hashTag(key); tag == "" || tag != hashTag(ka.index) {
				t.Errorf("%q: tag %q, the queue's %q", key, tag, hashTag(ka.index))
			}
			if i := strings.IndexFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }); i >= 0 {
				t.Errorf("%q: byte %d is not printable ASCII", key, i)
			}
		}
		if sameQueue != (hashTag(ka.index) == hashTag(kb.index)) {
			t.Errorf("%+q and %+q: tags %q and %q", a, b, hashTag(ka.index), hashTag(kb.index))
		}
	})
}

// hashTag is the part of a key that alone decides on its slot, as the Redis Cluster specification has it.
func hashTag(key string) string {
	_, rest, _ := strings.Cut(key, "{")
	tag, _, _ := strings.Cut(rest, "}")
	return tag
}
