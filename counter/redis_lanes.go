package counter

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/printable"
)

//go:embed scripts/lanes.lua
var lanesLua string

//go:embed scripts/lane_page.lua
var lanePageLua string

//go:embed scripts/lane.lua
var laneLua string

var (
	ownLanes = redis.NewScript(lanesLua)
	pageLane = redis.NewScript(lanePageLua)
	stepLane = redis.NewScript(laneLua)
)

//go:embed scripts/lane_list.lua
var laneListLua string

//go:embed scripts/lane_read.lua
var laneReadLua string

//go:embed scripts/lane_letters.lua
var laneLettersLua string

//go:embed scripts/lane_drop.lua
var laneDropLua string

var (
	listLanes   = redis.NewScript(laneListLua)
	readLane    = redis.NewScript(laneReadLua)
	noteLetters = redis.NewScript(laneLettersLua)
	dropLane    = redis.NewScript(laneDropLua)
)

// redisLanes keeps lanes on Redis, by scripts of their own.
type redisLanes struct{ *client }

func (c redisLanes) own(ctx context.Context, of Queue, before, owner string) (OwnedLanes, error) {
	keys := c.opts.lanesKeys(of.VHost, of.Name)
	reply, err := ownLanes.Run(ctx, c.rdb, keys, laneTTL.Milliseconds(), before, owner).Slice()
	if err != nil {
		return OwnedLanes{}, c.laneError(keys, err)
	}
	if len(reply) == 2 {
		now, isText := reply[0].(string)
		blocked, isNumber := reply[1].(int64)
		if isText && isNumber {
			return OwnedLanes{Owner: now, Blocked: int(blocked)}, nil
		}
	}
	return OwnedLanes{}, fmt.Errorf("%w: got %.80q, want the owner and a number", ErrReply, fmt.Sprint(reply))
}

// lanesRenewed is how many lanes the store renews in one round trip, which occupies it for about a millisecond.
const lanesRenewed = 200

func (c redisLanes) next(ctx context.Context, of Queue, after BlockedPage) (BlockedPage, error) {
	last := ""
	if n := len(after.Lanes); n > 0 {
		last = after.Lanes[n-1]
	}
	keys := c.opts.lanesKeys(of.VHost, of.Name)
	reply, err := pageLane.Run(ctx, c.rdb, keys, laneTTL.Milliseconds(), lanesRenewed, after.since, last).StringSlice()
	if err != nil {
		return BlockedPage{}, c.laneError(keys, err)
	}
	if len(reply) == 0 {
		return BlockedPage{}, c.storeError(fmt.Errorf("%w: got nothing, want a page", ErrReply))
	}
	return BlockedPage{Lanes: reply[1:], Last: len(reply) <= lanesRenewed, since: reply[0]}, nil
}

func (c redisLanes) blocked(ctx context.Context, of Queue) (int, error) {
	keys := c.opts.lanesKeys(of.VHost, of.Name)
	n, err := c.rdb.ZCard(ctx, keys[0]).Result()
	if err != nil {
		return 0, c.laneError(keys, err)
	}
	return int(n), nil
}

func (c redisLanes) step(ctx context.Context, s LaneStep) (LaneReply, error) {
	keys := c.opts.laneKeys(s.VHost, s.Queue, s.Lane)
	reply, err := stepLane.Run(ctx, c.rdb, keys, laneTTL.Milliseconds(), s.Act.String(), s.Owner, s.Number,
		printable.Cut(s.Lane, maxLane), hashID(s.Lane),
		member(s.ID, s.Generation), printable.Cut(s.ID, rules.MaxStoredID), s.Position.Since, s.Position.Number,
		s.Redelivered).Slice()
	if err != nil {
		return LaneReply{}, c.laneError(keys, err)
	}
	return parseLaneReply(reply)
}

func parseLaneReply(reply []any) (LaneReply, error) {
	if len(reply) == 3 {
		word, _ := reply[0].(string)
		since, _ := reply[1].(string)
		number, _ := reply[2].(string)
		if v := laneCodes[word]; v != 0 {
			return LaneReply{Code: v, Position: ParsePosition(since + "." + number)}, nil
		}
	}
	return LaneReply{}, fmt.Errorf("%w: got %.80q, want a reply and a position", ErrReply,
		fmt.Sprint(reply))
}

// list also returns how many entries it read: lanes lacks the expired ones.
func (c redisLanes) list(ctx context.Context, of Queue, skip, most int) (lanes []BlockedLane, read int,
	err error) {
	keys := c.opts.lanesKeys(of.VHost, of.Name)
	reply, err := listLanes.Run(ctx, c.rdb, keys, skip, most).Slice()
	if err != nil {
		return nil, 0, c.laneError(keys, err)
	}
	for _, entry := range reply {
		if lane, ok := parseBlockedLane(entry); ok {
			lanes = append(lanes, lane)
		}
	}
	return lanes, len(reply), nil
}

func parseBlockedLane(entry any) (BlockedLane, bool) {
	words, _ := entry.([]any)
	if len(words) != 4 {
		return BlockedLane{}, false
	}
	name, ok := words[0].(string) // of an expired lane it is nil
	by, _ := words[1].(string)
	since, _ := words[2].(string)
	n, _ := words[3].(int64)
	return BlockedLane{Lane: name, By: by, Since: millis(since), Messages: int(n)}, ok
}

func (c redisLanes) read(ctx context.Context, of Queue, lane string) (*LaneState, error) {
	keys := c.opts.laneKeys(of.VHost, of.Name, lane)
	reply, err := readLane.Run(ctx, c.rdb, keys, positionsRead, lettersRead, namesRead).Slice()
	if err == nil && len(reply) != 6 {
		err = fmt.Errorf("%w: got %d values, want 6", ErrReply, len(reply))
	}
	if err != nil {
		return nil, c.laneError(keys, err)
	}
	since, _ := reply[0].(string)
	last, _ := reply[1].(string)
	messages, _ := reply[2].(int64)
	s := &LaneState{Since: number(since), Last: number(last), Messages: int(messages), names: map[string][]blockedAt{}}
	for _, position := range texts(reply[3]) {
		s.Open = append(s.Open, number(position))
	}
	for _, text := range texts(reply[4]) {
		words := strings.SplitN(text, " ", 4)
		if len(words) == 4 {
			s.letters = append(s.letters, blocked{position: number(words[2]), name: words[1], id: words[3],
				published: words[0] == "p"})
		}
	}
	for _, text := range texts(reply[5]) {
		words := strings.Split(text, " ")
		if len(words) == 4 {
			s.names[words[0]] = append(s.names[words[0]], blockedAt{number(words[1]), words[2], words[3] == "1"})
		}
	}
	s.sort()
	return s, nil
}

// texts are the texts of a list; empty where it has another value.
func texts(reply any) []string {
	list, _ := reply.([]any)
	out := make([]string, 0, len(list))
	for _, v := range list {
		text, _ := v.(string)
		out = append(out, text)
	}
	return out
}

func (c redisLanes) note(ctx context.Context, of Queue, lane, act string, letters []LaneLetter) error {
	keys, args := c.opts.laneKeys(of.VHost, of.Name, lane), []any{act}
	for _, l := range letters {
		args = append(args, member(l.ID, l.Generation), l.Position.Number, printable.Cut(l.ID, rules.MaxStoredID))
	}
	if err := noteLetters.Run(ctx, c.rdb, keys, args...).Err(); err != nil {
		return c.laneError(keys, err)
	}
	return nil
}

func (c redisLanes) drop(ctx context.Context, of Queue, lane string, positions []Position) (int, error) {
	keys, args := c.opts.laneKeys(of.VHost, of.Name, lane), []any{hashID(lane)}
	for _, p := range positions {
		args = append(args, strconv.FormatInt(p.Since, 10), strconv.FormatInt(p.Number, 10))
	}
	left, err := dropLane.Run(ctx, c.rdb, keys, args...).Int()
	if err != nil {
		return 0, c.laneError(keys, err)
	}
	return left, nil
}

func (c redisLanes) letters(ctx context.Context, of Queue, recent time.Duration) (Blocked, error) {
	keys := c.opts.lanesKeys(of.VHost, of.Name)
	var held *redis.IntCmd
	var counts *redis.MapStringStringCmd
	var now *redis.TimeCmd
	_, err := c.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		held, counts, now = p.ZCard(ctx, keys[0]), p.HGetAll(ctx, keys[2]), p.Time(ctx)
		return nil
	})
	if err != nil {
		return Blocked{}, c.laneError(keys, err)
	}
	b := Blocked{Lanes: held.Val()}
	if b.Lanes == 0 {
		return b, nil
	}
	b.Count = max(number(counts.Val()["count"]), 0)
	for name, n := range counts.Val() {
		second, is := strings.CutPrefix(name, "s")
		at, err := strconv.ParseInt(second, 10, 64)
		if is && err == nil && recent > 0 && now.Val().Unix()-at <= int64(recent/time.Second) {
			b.Recent += number(n)
		}
	}
	b.Recent = min(b.Recent, b.Count)
	return b, nil
}

// lanesKeys are the keys of all lanes of a queue, and laneKeys those of one as well; scripts/lane.lua describes them.
func (o Options) lanesKeys(vhost, queue string) []string {
	q := o.queueKey(vhost, queue)
	return []string{q + "lanes", q + "lanes:owner", q + "lanes:blocked"}
}

func (o Options) laneKeys(vhost, queue, lane string) []string {
	q := o.queueKey(vhost, queue)
	l := q + "lane:" + hashID(lane)
	return append(o.lanesKeys(vhost, queue), q+"dead", l, l+":open", l+":letters", l+":names")
}

func (c *client) laneError(keys []string, err error) error {
	if isForeign(err) {
		return fmt.Errorf("%w: one of %q has another type; inspect each with redis-cli TYPE, and remove that one with DEL",
			ErrForeign, keys)
	}
	return c.storeError(err)
}
