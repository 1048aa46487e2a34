package counter

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// steps is what Counter and Memory have in common.
type steps interface {
	Start(ctx context.Context, a Attempt, mode Mode, limit int) (Answer, error)
	Fail(ctx context.Context, a Attempt, f Failure) (Answer, error)
	End(ctx context.Context, a Attempt, succeeded bool) error
	Get(ctx context.Context, vhost, queue, id string) ([]Record, error)
}

// store is one implementation under test, with a way to let time pass for a message.
type store struct {
	name string
	steps
	age func(t *testing.T, m Message, d time.Duration)
}

// stores returns every implementation: the model, the scripts on a fake Redis, and on a real one where REDIS_URL names it.
// (Package integration repeats the tests of the way on a real Redis of its own.)
func stores(t *testing.T) []store {
	all := []store{memoryStore(), redisStore(t, "miniredis", "redis://"+miniredis.RunT(t).Addr())}
	if url := os.Getenv("REDIS_URL"); url != "" {
		all = append(all, redisStore(t, "redis", url))
	}
	return all
}

func memoryStore() store {
	m := NewMemory(nil)
	return store{"memory", m, func(_ *testing.T, key Message, d time.Duration) {
		m.mu.Lock()
		defer m.mu.Unlock()
		if e := m.records[key]; e != nil {
			for _, at := range []*time.Time{&e.Due, &e.Binds, &e.Since, &e.FirstTime, &e.LastTime, &e.expires} {
				if !at.IsZero() {
					*at = at.Add(-d)
				}
			}
		}
	}}
}

func redisStore(t *testing.T, name, url string) store {
	c := dialTest(t, url)
	return store{name, c, func(t *testing.T, m Message, d time.Duration) { ageRecord(t, c, m, d) }}
}

// dialTest returns a Counter with a prefix of its own, whose keys are removed at the end.
func dialTest(t *testing.T, url string) *Counter {
	t.Helper()
	c, err := Dial(url, &Options{Prefix: fmt.Sprintf("strikes-test-%d", time.Now().UnixNano())})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		keys, _ := c.rdb.Keys(context.Background(), c.opts.Prefix+"*").Result()
		for _, k := range keys {
			c.rdb.Del(context.Background(), k)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// ageRecord moves a record's times into the past, which is the same to the scripts as time that passes.
func ageRecord(t *testing.T, c *Counter, m Message, d time.Duration) {
	t.Helper()
	ctx, key := t.Context(), c.opts.keys(m).record
	for _, field := range []string{"due", "binds", "since", "first", "last"} {
		if v := number(c.rdb.HGet(ctx, key, field).Val()); v > 0 {
			c.rdb.HSet(ctx, key, field, strconv.FormatInt(v-d.Milliseconds(), 10))
		}
	}
	if left := c.rdb.PTTL(ctx, key).Val(); left > 0 {
		c.rdb.PExpire(ctx, key, left-d)
	}
}

func keyspace(t *testing.T, c *Counter) []string {
	t.Helper()
	keys, err := c.rdb.Keys(t.Context(), c.opts.Prefix+"*").Result()
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func mustDo(t *testing.T, rdb redis.UniversalClient, args ...any) {
	t.Helper()
	if err := rdb.Do(t.Context(), args...).Err(); err != nil {
		t.Fatal(err)
	}
}
