package counter

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/strikesmq/strikes/counter/rules"
)

//go:embed scripts/load.lua
var loadLua string

//go:embed scripts/save.lua
var saveLua string

var (
	loadDocs = redis.NewScript(loadLua)
	saveDocs = redis.NewScript(saveLua)
)

// redisStore is a Store on Redis. A record is a string and the other documents of fields are hashes, which the scripts
// of the steps change too. The Version of a document is its Data.
type redisStore struct{ *client }

func (s redisStore) key(of Queue, name string) string {
	return s.opts.queueKey(of.VHost, of.Name) + name
}

func (s redisStore) Load(ctx context.Context, of Queue, names ...string) (time.Time, []Doc, error) {
	if len(names) == 0 {
		now, err := s.rdb.Time(ctx).Result()
		return now.UTC(), nil, s.failed(of, err)
	}
	keys, order := make([]string, 0, len(names)), make([]int, 0, len(names)) // order has the indices of the names
	strings, prefix := 0, s.key(of, "")
	for _, hashes := range []bool{false, true} {
		for i, name := range names {
			if isFields(name) == hashes {
				keys, order = append(keys, prefix+name), append(order, i)
			}
		}
		if !hashes {
			strings = len(keys)
		}
	}
	reply, err := loadDocs.Run(ctx, s.rdb, keys, strings).Slice()
	if err == nil && len(reply) != 2+2*len(names) {
		err = fmt.Errorf("%w: got %d values, want %d", ErrReply, len(reply), 2+2*len(names))
	}
	if err != nil {
		return time.Time{}, nil, s.failed(of, err)
	}
	seconds, _ := reply[0].(string)
	micros, _ := reply[1].(string)
	now, docs := time.Unix(number(seconds), number(micros)*1000).UTC(), make([]Doc, len(names))
	for i, at := range order {
		d := Doc{Name: names[at]}
		switch kept := reply[2+2*i].(type) {
		case string:
			d.Data = kept
		case []any:
			d.Data = encodeFields(fieldsOf(kept))
		case error:
			if !isForeign(kept) { // such as that of a user who may not send HGETALL
				return time.Time{}, nil, s.failed(of, kept)
			}
			d.Err = s.foreign(keys[i], kept)
		}
		d.Version = d.Data
		if ttl, _ := reply[3+2*i].(int64); ttl >= 0 && (d.Data != "" || d.Err != nil) {
			d.Expires = now.Truncate(time.Millisecond).Add(time.Duration(ttl) * time.Millisecond)
		}
		docs[at] = d
	}
	return now, docs, nil
}

func (s redisStore) Read(ctx context.Context, of Queue, _ string, page []Entry) ([]string, error) {
	prefix, keys := s.key(of, ""), make([]string, len(page))
	for i, e := range page {
		keys[i] = prefix + e.Record()
	}
	reply, err := s.rdb.MGet(ctx, keys...).Result()
	texts := make([]string, len(reply))
	for i, v := range reply {
		texts[i], _ = v.(string)
	}
	return texts, s.failed(of, err)
}

// fieldsOf reads the reply to HGETALL within a script's.
func fieldsOf(list []any) map[string]string {
	h := make(map[string]string, len(list)/2)
	for i := 1; i < len(list); i += 2 {
		name, _ := list[i-1].(string)
		h[name], _ = list[i].(string)
	}
	return h
}

func (s redisStore) Save(ctx context.Context, of Queue, c Change) (bool, error) {
	var keys []string
	args := []any{len(c.Docs) + len(c.Same)}
	docs := func(act string, docs []Doc) {
		for _, d := range docs {
			kind, act := "string", act
			if isFields(d.Name) {
				kind = "hash"
			}
			if d.Any {
				act = "replace"
			}
			keys, args = append(keys, s.key(of, d.Name)), append(args, kind, act, d.Version, d.Data, rules.Millis(d.Expires))
		}
	}
	docs("write", c.Docs)
	docs("compare", c.Same)
	args = append(args, len(c.Add))
	for _, sum := range c.Add {
		keys, args = append(keys, s.key(of, sum.Doc)), append(args, sum.Field, sum.By, rules.Millis(sum.Expires))
	}
	for _, m := range c.Sets {
		score := strconv.FormatInt(m.Score, 10)
		if m.Gone {
			score = ""
		}
		keys, args = append(keys, s.key(of, m.Set)), append(args, m.Name, score, rules.Millis(m.Expires))
	}
	saved, err := saveDocs.Run(ctx, s.rdb, keys, args...).Bool()
	if err != nil {
		return false, s.failed(of, err)
	}
	if saved {
		versioned(c.Docs)
	}
	return saved, nil
}

// sameScore is how many members of the score of a place Page expects before the place.
const sameScore = 32

func (s redisStore) Page(ctx context.Context, of Queue, set string, after Entry, n int) ([]Entry, error) {
	by := &redis.ZRangeBy{Min: "-inf", Max: "+inf", Count: int64(n)}
	if after != (Entry{}) { // a step that writes several records gives them one score
		by.Max, by.Count = strconv.FormatInt(after.Score, 10), int64(n+sameScore)
	}
	for { // members of the last score that come before the place may fill a reply
		var out []Entry
		found, err := s.rdb.ZRevRangeByScoreWithScores(ctx, s.key(of, set), by).Result()
		if err != nil {
			return nil, s.failedAt(of, set, err)
		}
		for _, z := range found {
			name, _ := z.Member.(string)
			if e := (Entry{name, int64(z.Score)}); after == (Entry{}) || fromHighest(after, e) < 0 {
				out = append(out, e)
			}
		}
		if len(out) >= n || int64(len(found)) < by.Count {
			return out[:min(n, len(out))], nil
		}
		by.Count *= 2 // an offset would pass over a member if one before it leaves meanwhile
	}
}

func (s redisStore) Count(ctx context.Context, of Queue, set string, from int64) (int, error) {
	n, err := s.rdb.ZCount(ctx, s.key(of, set), strconv.FormatInt(from, 10), "+inf").Result()
	return int(n), s.failedAt(of, set, err)
}

// Close closes the client if Dial opened it.
func (s redisStore) Close() error {
	if !s.owned {
		return nil
	}
	if err := s.rdb.Close(); !errors.Is(err, redis.ErrClosed) { // closed before
		return err
	}
	return nil
}

func (s redisStore) failed(of Queue, err error) error {
	if err == nil {
		return nil
	}
	return s.errorAt(Message{VHost: of.VHost, Queue: of.Name}, err)
}

// failedAt is failed for one key.
func (s redisStore) failedAt(of Queue, name string, err error) error {
	if err != nil && isForeign(err) {
		return s.foreign(s.key(of, name), err)
	}
	return s.failed(of, err)
}

// foreign is the error of a key that another program wrote.
func (s redisStore) foreign(key string, err error) error {
	return &StoreError{Fault: FaultOther, Err: fmt.Errorf("%w: %q has another type; inspect it with redis-cli TYPE, and "+
		"remove it with DEL: %w", ErrForeign, key, withoutSecrets(err, s.secrets))}
}
