// Package sqlstore has the parts that store/postgres and store/mysql share: options, keys, errors, findings and the
// rhythm of the goroutine that deletes expired rows.
package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/pause"
	"github.com/strikesmq/strikes/internal/setting"
)

// Version is the version of the schemas. The comment of the table strikes_doc has it.
const Version = "strikes 1"

// ErrSchema is wrapped if the tables are missing, or are of another version of strikes.
var ErrSchema = errors.New("the schema of strikes in this database is not the one that this program needs")

// CheckVersion returns an ErrSchema that says what to do, unless the tables are those of Version. An empty version
// means that there are none.
func CheckVersion(got string) error {
	switch {
	case got == Version:
		return nil
	case got == "":
		return fmt.Errorf("%w: got none, want %q; run: strikes store migrate", ErrSchema, Version)
	case strings.HasPrefix(got, "strikes ") && (len(got) > len(Version) || len(got) == len(Version) && got > Version):
		return fmt.Errorf("%w: got %.40q, which a newer strikes made, want %q; upgrade this program", ErrSchema, got, Version)
	case !strings.HasPrefix(got, "strikes "):
		return fmt.Errorf("%w: the comment of its table strikes_doc is %.40q, want %q; if strikes made the table, write the "+
			"comment again", ErrSchema, got, Version)
	}
	return fmt.Errorf("%w: got %.40q, want %q; run: strikes store migrate", ErrSchema, got, Version)
}

// Options are the fields of postgres.Options and mysql.Options.
type Options struct {
	Prefix  string
	Timeout time.Duration
}

// Base has the settings of a Store, and the meanings of its server's errors.
type Base struct {
	Options
	Addr     string // of the server
	Database string
	Password string
	Faults   []Fault
	Code     func(error) string // of the server's reply; empty if there was none
	Gone     func(error) bool   // the driver says that the server is out of reach
}

// With returns a copy of b that has opts, with the defaults filled in.
func (b Base) With(opts *Options) Base {
	if opts != nil {
		b.Options = *opts
	}
	b.Prefix = cmp.Or(b.Prefix, counter.DefaultPrefix)
	if b.Timeout <= 0 {
		b.Timeout = 2 * time.Second
	}
	return b
}

// Fault is the kind of some errors of a server.
type Fault struct {
	Codes string // as Matches reads them; of several faults with a code, the first one counts
	Do    string // what to do; <database> stands for its name
	Fault counter.StoreFault
}

// Matches reports whether a code is in a list, which spaces separate. One that ends in * is the beginning of several.
func Matches(list, code string) bool {
	for one := range strings.FieldsSeq(list) {
		if begin, several := strings.CutSuffix(one, "*"); one == code || several && strings.HasPrefix(code, begin) {
			return code != ""
		}
	}
	return false
}

// Key is the key of a queue: no name of one can be the beginning of another's.
func (b *Base) Key(of counter.Queue) []byte {
	return fmt.Appendf(nil, "%s:%d:%s:%s", b.Prefix, len(of.VHost), of.VHost, of.Name)
}

// Within returns the ctx of one call.
func (b *Base) Within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, b.Timeout)
}

// Millis is a time in milliseconds since 1970; 0 for the zero time.
func Millis(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return at.UnixMilli()
}

// Time is the inverse of Millis.
func Time(millis int64) time.Time {
	if millis == 0 {
		return time.Time{}
	}
	return time.UnixMilli(millis).UTC()
}

// Row returns the row of a member. A Member without a name keeps a set: its row is in the set "" and has the name of
// that set. Sweeps delete no member of a set that such a row keeps, so the renewal of a set is one row, however many
// members it has.
func Row(m counter.Member) counter.Member {
	if m.Name == "" {
		return counter.Member{Name: m.Set, Expires: m.Expires}
	}
	return m
}

// Saved sets the Version of documents that a Save wrote.
func Saved(docs []counter.Doc, version int64) {
	for i := range docs {
		if docs[i].Version = ""; docs[i].Data != "" {
			docs[i].Version = strconv.FormatInt(version, 10)
		}
	}
}

// NewVersion returns the version of the documents that a Save writes.
func NewVersion() int64 { return rand.Int64N(1<<62) + 1 } //nolint:gosec // no secret

// VersionOf reads the Version of a document. It is 0 if there was none, and -1, which no document has, if it is not of
// this kind of Store.
func VersionOf(d counter.Doc) int64 {
	version, err := strconv.ParseInt(cmp.Or(d.Version, "0"), 10, 64)
	if err != nil {
		return -1
	}
	return version
}

// Docs returns the documents of these names in their order. One that was not found is absent.
func Docs(names []string, found map[string]counter.Doc) []counter.Doc {
	docs := make([]counter.Doc, len(names))
	for i, name := range names {
		docs[i] = found[name]
		docs[i].Name = name
	}
	return docs
}

// Failed returns err as a counter.StoreError of one line without the password, or nil if err is nil. It leaves
// undecided whether a Save was done.
func (b *Base) Failed(err error) error {
	if err == nil {
		return nil
	}
	var network net.Error
	fault, do := counter.FaultOther, ""
	switch code := b.Code(err); {
	case errors.Is(err, ErrSchema):
		fault = counter.FaultNotSetUp
	case code != "":
		if i := slices.IndexFunc(b.Faults, func(f Fault) bool { return Matches(f.Codes, code) }); i >= 0 {
			fault, do = b.Faults[i].Fault, strings.ReplaceAll(b.Faults[i].Do, "<database>", b.Database)
		}
	case errors.Is(err, context.Canceled):
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		fault = counter.FaultSlow
	case b.Gone(err), errors.As(err, &network):
		fault = counter.FaultUnreachable
	}
	// pgx puts each dial that failed on a line of its own
	text := strings.NewReplacer(":\n\t", ": ", "\n\t", "; ").Replace(err.Error())
	if b.Password != "" && !errors.Is(err, ErrSchema) { // its text names the command, even if the password is "strikes"
		text = setting.Hide(text, b.Password)
	}
	if do != "" {
		text += "; " + do
	}
	if text != err.Error() {
		err = redacted{err, text}
	}
	return &counter.StoreError{Fault: fault, Err: err}
}

// redacted is an error whose text had a password, had several lines, or did not say what to do.
type redacted struct {
	error
	text string
}

func (r redacted) Error() string { return r.text }

func (r redacted) Unwrap() error { return r.error }

// Server describes a server for its findings.
type Server struct {
	Addr, Release string
	TooOld        string // the oldest release on which the queries work, if the server is older
	User          string
	Denied        string        // the grants that the user lacks
	Primary       string        // how to reach the primary, if the server is read-only
	Volatile      string        // the settings that lose the last moments in a crash
	Durable       string        // the statement that changes these settings
	Ahead         time.Duration // of this machine's clock
}

// Findings returns the faults of a server.
func (s Server) Findings() (found []counter.Finding) {
	for _, f := range []struct {
		is bool
		counter.Finding
	}{
		{s.TooOld != "", counter.Finding{
			Code: "store-version", Severe: true,
			Seen:   fmt.Sprintf("the store %s is %s", s.Addr, s.Release),
			Impact: "the steps are not tested on a server before " + s.TooOld,
			Fix:    "use " + s.TooOld + " or later",
		}},
		{s.Primary != "", counter.Finding{
			Code: "store-replica", Severe: true,
			Seen:   fmt.Sprintf("the store %s is a replica or read-only", s.Addr),
			Impact: "it refuses writes: no failure is counted, and failed messages are held until their session ends",
			Fix:    "use " + s.Primary,
		}},
		{s.Denied != "", counter.Finding{
			Code: "store-acl", Severe: true,
			Seen:   fmt.Sprintf("the user %q of the store %s may not read and write its tables", s.User, s.Addr),
			Impact: "the steps that need it fail, and failed messages are held until their session ends",
			Fix:    "run as the owner of the tables: " + s.Denied,
		}},
		{s.Volatile != "", counter.Finding{
			Code:   "store-volatile",
			Seen:   fmt.Sprintf("in the store %s %s", s.Addr, s.Volatile),
			Impact: "a crash of the server loses the counts of its last moments, and those attempts are made again",
			Fix:    s.Durable,
		}},
		{s.Ahead.Abs() > time.Minute, counter.Finding{
			Code: "store-clock",
			Seen: fmt.Sprintf("the clock of the store %s differs by %v from this machine's", s.Addr,
				s.Ahead.Round(time.Second)),
			Impact: "lists show the store's times, and MaxAge goes by its clock",
			Fix:    "let both machines set their clocks by NTP",
		}},
	} {
		if f.is {
			found = append(found, f.Finding)
		}
	}
	return found
}

// CleanBatch is the number of rows that one call of a sweep reads, and CleanGrace how long an expired row stays.
const (
	CleanBatch = 1000
	CleanGrace = time.Minute
	cleanEvery = 10 * time.Second
)

// Clean runs sweeps that delete expired rows, until stop is called, which waits for them. Each call of a sweep reads
// CleanBatch rows, from where its last call stopped. One that deleted most of them is called again immediately.
func Clean(sweeps ...func(context.Context) (deleted int, err error)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var cleaning sync.WaitGroup
	cleaning.Go(func() {
		for pause.For(ctx, cleanEvery) {
			for _, sweep := range sweeps {
				for deleted := CleanBatch; deleted > CleanBatch/2; {
					var err error
					if deleted, err = sweep(ctx); err != nil {
						break // the server is away, or this user may not delete: the next turn tries again
					}
				}
			}
		}
	})
	return func() {
		cancel()
		cleaning.Wait()
	}
}
