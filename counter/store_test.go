package counter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/strikesmq/strikes/counter/rules"
)

func TestMain(m *testing.M) {
	logging.Disable() // of go-redis: it prints every failed dial
	goleak.VerifyTestMain(m)
}

// attempts are a consumer's steps.
type attempts interface {
	Start(ctx context.Context, a Attempt, mode rules.Mode, limit int) (Reply, error)
	Begun(ctx context.Context, a Attempt) (Reply, error)
	Fail(ctx context.Context, a Attempt, f Failure) (Reply, error)
	End(ctx context.Context, a Attempt, succeeded bool) error
	Moved(ctx context.Context, a Attempt, copyNumber int64) error
}

// store is one implementation under test, with a way to let time pass and to look at one generation of a message.
type store struct {
	name     string
	attempts                                                  // those of the Memory, or with a fault
	*Memory                                                   // a Counter and its Admin
	open     func(t testing.TB, o *Options) *Counter          // another on the same server, where nothing is kept
	age      func(t rapid.TB, d time.Duration, ms ...Message) // all the messages of their queue
	look     func(t rapid.TB, m Message) sight
}

func wholeOf(c *Counter) *Memory { return &Memory{c, c.Admin()} }

// sight is the stored state of one generation of a message.
type sight struct {
	Record
	exists     bool
	indexed    bool          // it is in the index
	dead       bool          // it is among the dead
	tombstones Tombstones    // of the queue, without Expired
	setTTL     time.Duration // of the index or the dead
}

const byTheRules = " by rules"

// ruled takes the steps of a store by the rules, without the scripts.
func ruled(s store) store {
	c, open := byRules(s.Counter), s.open
	s.name, s.attempts, s.Memory = s.name+byTheRules, c, wholeOf(c)
	s.open = func(t testing.TB, o *Options) *Counter { return byRules(open(t, o)) }
	return s
}

// otherStore opens an empty Store of another module. It is nil, but where the test TestOtherStores of package
// integration adds a file to this package.
var otherStore func(testing.TB) Store

// stores returns every implementation: the model, the scripts and the rules on a fake Redis, and on a real one where
// REDIS_URL names it. (Package integration repeats the tests of the way on a real Redis of its own.) Beside a store of
// another module there is the model alone.
func stores(t testing.TB) []store {
	all := []store{memoryUnderTest()}
	if otherStore != nil {
		open := func(t testing.TB, o *Options) *Counter {
			c := Over(otherStore(t), o)
			t.Cleanup(func() {
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			})
			return c
		}
		c := open(t, nil)
		return append(all, store{"other", c, wholeOf(c), open, c.age, c.look})
	}
	all = append(all, miniredisUnderTest(t))
	url := os.Getenv("REDIS_URL")
	if url == "" {
		return append(all, ruled(miniredisUnderTest(t)))
	}
	return append(all, redisUnderTest(t, "redis", url), ruled(redisUnderTest(t, "redis", url)))
}

// storesForLong returns the stores for thousands of steps: miniredis, which is slow at large records, only without a
// Redis.
func storesForLong(t testing.TB) []store {
	all := stores(t)
	if os.Getenv("REDIS_URL") != "" {
		all = slices.DeleteFunc(all, func(s store) bool { return s.name == "miniredis" })
	}
	return all
}

// servers returns the Counters with scripts, on Redis.
func servers(t testing.TB) []*Counter {
	return slices.DeleteFunc(counters(t), func(c *Counter) bool { return c.rdb == nil })
}

// counters returns a Counter of each store, with scripts where it has them. An operator's calls are the same by rules.
func counters(t testing.TB) (all []*Counter) {
	for _, s := range stores(t) {
		if !strings.HasSuffix(s.name, byTheRules) {
			all = append(all, s.Counter)
		}
	}
	return all
}

// miniredisUnderTest lets TTLs elapse as they do in the other stores: of itself miniredis keeps them as they were set,
// and a machine that stalls for seconds would look like a store that differs.
func miniredisUnderTest(t testing.TB) store {
	server := miniredis.RunT(t)
	s := redisUnderTest(t, "miniredis", "redis://"+server.Addr())
	look, at := s.look, time.Now()
	s.look = func(t rapid.TB, m Message) sight {
		if d := time.Since(at); d > time.Second {
			server.FastForward(d)
			at = at.Add(d)
		}
		return look(t, m)
	}
	return s
}

func memoryUnderTest() store {
	m := NewMemory(nil)
	open := func(_ testing.TB, o *Options) *Counter { return NewMemory(o).Counter }
	return store{"memory", m, m, open, m.Counter.age, m.Counter.look}
}

// age makes records, and the sets of their queue, older. That is the same to a store as time that passes; if d is
// negative, as a clock that is set back.
func (c *client) age(t rapid.TB, d time.Duration, ms ...Message) {
	t.Helper()
	ctx, of := context.Background(), Queue{ms[0].VHost, ms[0].Queue}
	var names []string
	for _, m := range ms {
		names = append(names, docRecord(member(m.ID, m.Generation)))
	}
	_, docs, err := c.store.Load(ctx, of, names...)
	var older Change
	for _, doc := range docs {
		e, exists := rules.Decode(doc.Data)
		if !exists { // an expired record does not come back
			continue
		}
		if e.Fence > 0 {
			e.Fence = max(1, e.Fence-d.Microseconds())
		}
		for _, at := range timesOf(&e) {
			if !at.IsZero() {
				*at = at.Add(-d)
			}
		}
		older.Docs = append(older.Docs, Doc{Name: doc.Name, Data: rules.Encode(e), Expires: doc.Expires.Add(-d), Any: true})
	}
	for _, set := range []string{setIndex, setDead} {
		entries, errOf := c.store.Page(ctx, of, set, Entry{}, scanned)
		err = errors.Join(err, errOf)
		for _, e := range entries {
			older.Sets = append(older.Sets, Member{Set: set, Name: e.Name, Score: e.Score - d.Milliseconds()})
		}
	}
	_, errOf := c.store.Save(ctx, of, older)
	need(t, errors.Join(err, errOf))
	if c.rdb == nil {
		return
	}
	for _, set := range []string{setIndex, setDead} { // a Save never has a set expire earlier
		key := c.opts.queueKey(of.VHost, of.Name) + set
		if left := c.rdb.PTTL(ctx, key).Val(); left > 0 {
			need(t, c.rdb.PExpire(ctx, key, left-d).Err())
		}
	}
}

// look looks at one generation of a message. Only on Redis it sees how long the members of sets are kept, and whether
// the scripts wrote the record as Go does.
func (c *client) look(t rapid.TB, m Message) sight {
	t.Helper()
	ctx, of, entry := context.Background(), Queue{m.VHost, m.Queue}, member(m.ID, m.Generation)
	records, err := (&Admin{c}).read(ctx, of, []string{entry})
	state, errOf := (&Admin{c}).State(ctx, m.VHost, m.Queue)
	need(t, errors.Join(err, errOf))
	tombstones := state.Tombstones
	tombstones.Expired = 0 // a tombstone that was renewed leaves its set up to an eighth of its TTL early
	s := sight{tombstones: tombstones, exists: records[0] != nil, indexed: c.isIn(t, of, setIndex, entry, 0),
		dead: c.isIn(t, of, setDead, entry, time.Now().UnixMilli())}
	if !s.exists {
		return s
	}
	s.Record = *records[0]
	s.setTTL = s.TTL
	if c.rdb != nil {
		k := c.opts.keys(m)
		text, err := c.rdb.Get(ctx, k.record).Result()
		if again := rules.Encode(s.Record); again != text && err == nil {
			t.Fatalf("the scripts wrote\n%q, and Go\n%q", text, again)
		}
		set := k.index
		if amongDead(s) {
			set = k.dead
		}
		s.setTTL = c.rdb.PTTL(ctx, set).Val()
	}
	s.Listed = time.Time{} // which set it is in is compared with the record
	return s
}

// isIn reports whether a set has a member with more than a score.
func (c *client) isIn(t rapid.TB, of Queue, set, name string, above int64) bool {
	t.Helper()
	entries, err := c.store.Page(context.Background(), of, set, Entry{}, scanned)
	need(t, err)
	return slices.ContainsFunc(entries, func(e Entry) bool { return e.Name == name && e.Score > above })
}

func redisUnderTest(t testing.TB, name, url string) store {
	c := dialTest(t, url)
	open := func(_ testing.TB, o *Options) *Counter {
		other := o.withDefaults()
		other.Prefix = fmt.Sprintf("%s:%d", c.opts.Prefix, time.Now().UnixNano())
		return New(c.rdb, &other)
	}
	return store{name, c, wholeOf(c), open, c.age, c.look}
}

// dialTest returns a Counter with a prefix of its own, whose keys are removed at the end. Its timeouts are long, so
// that no test depends on how busy the machine is.
func dialTest(t testing.TB, url string) *Counter {
	t.Helper()
	separator := "?"
	if strings.Contains(url, "?") {
		separator = "&"
	}
	c, err := Dial(url+separator+"read_timeout=20s&write_timeout=20s&dial_timeout=20s",
		&Options{Prefix: fmt.Sprintf("strikes-test-%d", time.Now().UnixNano())})
	need(t, err)
	t.Cleanup(func() {
		for _, k := range c.rdb.Keys(context.Background(), c.opts.Prefix+"*").Val() {
			c.rdb.Del(context.Background(), k)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func keyspace(t *testing.T, c *Counter) []string {
	t.Helper()
	keys, err := c.rdb.Keys(t.Context(), c.opts.Prefix+"*").Result()
	need(t, err)
	return keys
}

func mustDo(t *testing.T, rdb redis.UniversalClient, args ...any) {
	t.Helper()
	need(t, rdb.Do(t.Context(), args...).Err())
}

// errOf is the error of a call whose result the test does not need.
func errOf[T any](_ T, err error) error { return err }

// needOf is need for one of several stores.
func needOf(t rapid.TB, name string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// need fails the test unless err is nil.
func need(t rapid.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// keys of one record and of its queue; scripts/record.lua describes the layout.
type keys struct{ record, index, override, tombstones, dead string }

func (o Options) keys(m Message) keys {
	q := o.queueKey(m.VHost, m.Queue)
	return keys{recordKey(q, m), q + setIndex, q + docLimit, q + docTombstones, q + setDead}
}
