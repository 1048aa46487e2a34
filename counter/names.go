package counter

import "github.com/strikesmq/strikes/counter/rules"

// Types of package rules, which describes them. Programs that take the steps themselves import it too.
type (
	Message    = rules.Message
	Attempt    = rules.Attempt
	Failure    = rules.Failure
	Cause      = rules.Cause
	Reply      = rules.Reply
	Record     = rules.Record
	State      = rules.State
	Note       = rules.Note
	Override   = rules.Override
	Tombstones = rules.Tombstones
	Breaker    = rules.Breaker
)

// The causes of a Failure and of a dead letter.
const (
	CauseFailed     = rules.CauseFailed
	CausePanicked   = rules.CausePanicked
	CauseTimedOut   = rules.CauseTimedOut
	CauseRejected   = rules.CauseRejected
	CauseNotCounted = rules.CauseNotCounted
	CauseCrashed    = rules.CauseCrashed
	CauseSkipped    = rules.CauseSkipped
	CauseBlocked    = rules.CauseBlocked
	CauseTooOld     = rules.CauseTooOld
	CauseNoID       = rules.CauseNoID
)

// The states of a Record.
const (
	StateLive       = rules.StateLive
	StateDeadLetter = rules.StateDeadLetter
	StateSkip       = rules.StateSkip
	StateHeld       = rules.StateHeld
	StateDone       = rules.StateDone
)

// Bounds of a record.
const (
	MaxReason   = rules.MaxReason
	MaxOverride = rules.MaxOverride
)
