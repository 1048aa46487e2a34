// The AMQP values of spec/v1, as bytes.

const SIZES = {
  int8: ['b', 1], uint8: ['B', 1], int16: ['s', 2], uint16: ['u', 2], int32: ['I', 4], uint32: ['i', 4],
  int64: ['l', 8], timestamp: ['T', 8]
}

/** A value of a case as AMQP writes it: its type, then its bytes. */
function spell(value) {
  if (typeof value === 'string') return sized('S', Buffer.from(value))
  if (typeof value === 'boolean') return Buffer.from(['t'.charCodeAt(0), value ? 1 : 0])
  if (value === null) return Buffer.from('V')
  if (Array.isArray(value)) return sized('A', Buffer.concat(value.map(spell)))
  const [name] = Object.keys(value)
  if (!name?.startsWith('$')) return sized('F', table(value))
  const kind = name.slice(1)
  if (kind === 'bytes') return sized('x', Buffer.from(value[name], 'base64'))
  const out = Buffer.alloc(8)
  if (kind === 'double') {
    out.writeDoubleBE(value[name])
    return Buffer.concat([Buffer.from('d'), out])
  }
  const [type, size] = SIZES[kind]
  out.writeBigUInt64BE(BigInt.asUintN(64, BigInt(value[name])))
  return Buffer.concat([Buffer.from(type), out.subarray(8 - size)])
}

function sized(type, content) {
  const size = Buffer.alloc(4)
  size.writeUInt32BE(content.length)
  return Buffer.concat([Buffer.from(type), size, content])
}

/** The bytes of a header table. */
export function table(value) {
  return Buffer.concat(
    Object.entries(value).map(([name, v]) =>
      Buffer.concat([Buffer.from([Buffer.byteLength(name)]), Buffer.from(name), spell(v)])
    )
  )
}

/** The bytes of a message's properties: its headers, unless they are undefined, and its id, unless it is empty. */
export function properties(headers, id) {
  const flags = Buffer.alloc(2)
  flags.writeUInt16BE((headers ? 0x2000 : 0) | (id === '' ? 0 : 0x80))
  const size = Buffer.alloc(4)
  const content = headers ? table(headers) : Buffer.alloc(0)
  size.writeUInt32BE(content.length)
  const name = Buffer.from(id)
  return Buffer.concat([
    flags, ...(headers ? [size, content] : []), ...(id === '' ? [] : [Buffer.from([name.length]), name])
  ])
}
