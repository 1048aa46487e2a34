package counter

// NewMemoryStore is the Store of a Memory.
func NewMemoryStore() Store { return newMemoryStore() }

// DialTest opens a store for a test.
var DialTest = dialTest

// StoreOf is the Store of a Counter.
func StoreOf(c *Counter) Store { return c.store }

// OtherStore opens a Store of another module.
var OtherStore = &otherStore
