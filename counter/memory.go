package counter

// Memory is a Counter and its Admin in this process alone. It is for unit tests of handlers and of programs that use
// package consumer, without a server. Its methods fail only on invalid arguments and if ctx has ended. It is safe for
// concurrent use, and shares nothing with other processes.
type Memory struct {
	*Counter
	*admin
}

// admin gives Memory the methods of an Admin, while its method Admin stays that of a Counter.
type admin = Admin

// NewMemory returns an empty Memory. Of the options it uses only TTL; nil means the defaults.
func NewMemory(opts *Options) *Memory {
	c := Over(newMemoryStore(), opts)
	c.pipe = nil
	return &Memory{c, c.Admin()}
}
