package counter

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/strikesmq/strikes/counter/rules"
)

// TestMemoryNeedsNoServer: a Memory has every method of a Counter and of an Admin, and none asks for a server.
func TestMemoryNeedsNoServer(t *testing.T) {
	note := Note{By: "op", Why: "why"}
	given := []any{message("1"), []Message{message("1")}, note, attempt(message("1"), "b"), Reader{Token: "a"},
		Override{MaxRetries: new(3), Note: note}, Failure{Limit: 4}, AuditEntry{Verb: "skip"}, 7, int64(7), true, time.Minute,
		[]string{"orders"}, rules.ModeShared, BlockedPage{}, []LaneLetter{}, []Position{}, rules.Progress{Breaker: 8},
		rules.LaneStep{Message: message("1"), Lane: "l", Act: rules.LaneEnter, Owner: "a", Number: 1}}
	of := reflect.TypeFor[*Memory]()
	for i := range of.NumMethod() {
		method := of.Method(i)
		var args []reflect.Value
		for at := 1; at < method.Type.NumIn(); at++ {
			args = append(args, argument(t, at, method.Type.In(at), given))
		}
		t.Run(method.Name, func(t *testing.T) {
			m := NewMemory(nil)
			need(t, errOf(m.Fail(t.Context(), attempt(message("1"), "a"), again)))
			for _, out := range reflect.ValueOf(m).Method(i).Call(args) {
				if out.Kind() == reflect.Func { // it yields
					out.Call([]reflect.Value{reflect.MakeFunc(out.Type().In(0), func(yielded []reflect.Value) []reflect.Value {
						if last := yielded[len(yielded)-1]; !last.IsNil() && method.Name != "Dead" { // the place is none
							t.Error(last)
						}
						return []reflect.Value{reflect.ValueOf(true)}
					})})
				}
				// it may refuse arguments
				if err, is := out.Interface().(error); is && errors.As(err, new(*StoreError)) {
					t.Error(err)
				}
			}
		})
	}
}

func argument(t *testing.T, at int, of reflect.Type, given []any) reflect.Value {
	t.Helper()
	if of == reflect.TypeFor[context.Context]() {
		return reflect.ValueOf(t.Context())
	}
	if of.Kind() == reflect.String {
		return reflect.ValueOf([]string{"", "", "/", "orders", "1"}[min(at, 4)]).Convert(of)
	}
	for _, v := range given {
		if reflect.TypeOf(v) == of {
			return reflect.ValueOf(v)
		}
	}
	return reflect.Zero(of)
}
