export { Consumer } from './consumer.js'
export { Counter, DEFAULT_TTL, dial } from './counter.js'
export { defaultBackoff } from './backoff.js'
export {
  FieldError, WaitedTooLongError, RefusedError, SettlementError, StoreError, StuckError, UncleanStopError,
  UndecodableError
} from './errors.js'
export { FENCE_HEADER, FOR_HEADER, GENERATION_HEADER, MessageHeaders, nameFor, readHeaders } from './generation.js'
export { controlKeys, DEFAULT_PREFIX, keys, member } from './key.js'
export { keepRaw } from './properties.js'
export { parseRecord } from './record.js'
export { publish } from './publisher.js'
export { notCounted, reject, retryAfter, retryAtMost } from './steer.js'
export { Settler } from './settler.js'
export { newToken } from './token.js'
