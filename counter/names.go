package counter

import "github.com/strikesmq/strikes/counter/rules"

// Types of the rules, which package rules describes.
type (
	Message     = rules.Message
	Attempt     = rules.Attempt
	Delay       = rules.Delay
	Mode        = rules.Mode
	Failure     = rules.Failure
	Cause       = rules.Cause
	Reply       = rules.Reply
	Verdict     = rules.Verdict
	Record      = rules.Record
	State       = rules.State
	Tokens      = rules.Tokens
	Token       = rules.Token
	Kind        = rules.Kind
	AttemptNote = rules.AttemptNote
	Move        = rules.Move
	Note        = rules.Note
	Override    = rules.Override
	Holding     = rules.Holding
	Tombstones  = rules.Tombstones
)

// The modes of an attempt.
const (
	ModeShared          = rules.ModeShared
	ModeIsolated        = rules.ModeIsolated
	ModeUntracked       = rules.ModeUntracked
	ModeBesideAbandoned = rules.ModeBesideAbandoned
	ModeReserved        = rules.ModeReserved
)

// The causes of a Failure and of a dead letter.
const (
	CauseFailed   = rules.CauseFailed
	CausePanicked = rules.CausePanicked
	CauseTimedOut = rules.CauseTimedOut
	CauseRejected = rules.CauseRejected
	CauseCrashed  = rules.CauseCrashed
	CauseSkipped  = rules.CauseSkipped
	CauseBehind   = rules.CauseBehind
	CauseTooOld   = rules.CauseTooOld
	CauseNoID     = rules.CauseNoID
)

// The verdicts of Start, Begun and Fail.
const (
	VerdictRun       = rules.VerdictRun
	VerdictWait      = rules.VerdictWait
	VerdictSuspect   = rules.VerdictSuspect
	VerdictRequeue   = rules.VerdictRequeue
	VerdictExhausted = rules.VerdictExhausted
	VerdictMove      = rules.VerdictMove
	VerdictStale     = rules.VerdictStale
	VerdictHeld      = rules.VerdictHeld
	VerdictBegun     = rules.VerdictBegun
	VerdictGone      = rules.VerdictGone
)

// The states of a Record.
const (
	StateLive       = rules.StateLive
	StateDeadLetter = rules.StateDeadLetter
	StateSkip       = rules.StateSkip
	StateDone       = rules.StateDone
	StateForeign    = rules.StateForeign
)

// The kinds of known attempts.
const (
	KindFailed     = rules.KindFailed
	KindCrashed    = rules.KindCrashed
	KindNotCounted = rules.KindNotCounted
)

// Bounds of a record.
const (
	MaxReason     = rules.MaxReason
	MaxFence      = rules.MaxFence
	MaxCopyNumber = rules.MaxCopyNumber
	MaxOverride   = rules.MaxOverride
)
