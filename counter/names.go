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
	ReplyCode   = rules.ReplyCode
	Record      = rules.Record
	State       = rules.State
	Tokens      = rules.Tokens
	Token       = rules.Token
	AttemptNote = rules.AttemptNote
	Move        = rules.Move
	Note        = rules.Note
	Override    = rules.Override
	Tombstones  = rules.Tombstones
	Progress    = rules.Progress
	Breaker     = rules.Breaker
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

// The reply of Start, Begun and Fail.
const (
	ReplyRun        = rules.ReplyRun
	ReplyWait       = rules.ReplyWait
	ReplySuspect    = rules.ReplySuspect
	ReplyRequeue    = rules.ReplyRequeue
	ReplyExhausted  = rules.ReplyExhausted
	ReplyMove       = rules.ReplyMove
	ReplySuperseded = rules.ReplySuperseded
	ReplyHeld       = rules.ReplyHeld
	ReplyUncounted  = rules.ReplyUncounted
	ReplyBegun      = rules.ReplyBegun
	ReplyGone       = rules.ReplyGone
)

// The states of a Record.
const (
	StateLive       = rules.StateLive
	StateDeadLetter = rules.StateDeadLetter
	StateSkip       = rules.StateSkip
	StateHeld       = rules.StateHeld
	StateDone       = rules.StateDone
)

// The kinds of known attempts.
const (
	KindFailed     = rules.KindFailed
	KindNotCounted = rules.KindNotCounted
)

// Bounds of a record.
const (
	MaxReason   = rules.MaxReason
	MaxFence    = rules.MaxFence
	MaxOverride = rules.MaxOverride
	MaxBreaker  = rules.MaxBreaker // of Progress.Breaker
)
