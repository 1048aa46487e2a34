package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"

	"github.com/spf13/cobra"
)

// NewLogger logs the events beside the messages. cmd has the settings of the consumer; nil: there is none.
func NewLogger(w io.Writer, verbose bool, cmd *cobra.Command) *slog.Logger {
	level := slog.LevelWarn
	if verbose {
		level = slog.LevelInfo
	}
	return slog.New(&log{
		Handler: slog.NewTextHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string,
			a slog.Attr) slog.Attr {
			switch v := a.Value.Any().(type) {
			case string:
				a.Value = slog.StringValue(InFlags(v))
			case error:
				a.Value = slog.StringValue(InFlags(v.Error()))
			}
			return a
		}}),
		to:      w,
		cmd:     cmd,
		printed: new(sync.Map),
	})
}

// log is a slog.Handler that prints each remark, and each command for more, once and in short. Every session checks the
// queue and the store before it begins, and would repeat its warnings. strikes doctor prints them in full.
type log struct {
	slog.Handler
	to      io.Writer // for commands, which a slog.TextHandler would quote
	cmd     *cobra.Command
	printed *sync.Map // the remarks and commands that were printed
}

func (l *log) Handle(ctx context.Context, r slog.Record) error {
	attrs, is := remark(r)
	_, outcome := attrs["outcome"]
	_, nameless := attrs["fingerprint"] // which is shown nowhere else
	if outcome && !nameless {           // consume prints it as a decision
		return nil
	}
	if is {
		if _, before := l.printed.LoadOrStore(r.Message, nil); before {
			return nil
		}
	}
	if is && attrs["code"] != "" {
		short := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
		short.AddAttrs(slog.String("queue", attrs["queue"]), slog.String("impact", attrs["impact"]))
		err := l.Handler.Handle(ctx, short)
		hint := forMore(l.cmd, attrs["queue"])
		if _, before := l.printed.LoadOrStore(hint, nil); !before {
			fmt.Fprintln(l.to, hint)
		}
		return err
	}
	return l.Handler.Handle(ctx, r)
}

func (l *log) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &log{l.Handler.WithAttrs(attrs), l.to, l.cmd, l.printed}
}

// remark returns the attributes of a record, and reports whether it is a remark: one about a queue or its store as they
// are, not about something that happened.
func remark(r slog.Record) (attrs map[string]string, is bool) {
	attrs, is = map[string]string{}, r.Level == slog.LevelWarn
	r.Attrs(func(attr slog.Attr) bool {
		attrs[attr.Key] = attr.Value.String()
		is = is && slices.Contains([]string{"queue", "code", "impact", "fix"}, attr.Key)
		return true
	})
	return attrs, is
}
