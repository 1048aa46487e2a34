// Reads and writes records in the form of spec/v1, as spec/README.md describes it.
import { parseRecord } from '../src/record.js'

/** The bytes of a text of a case. */
export function bytes(text) {
  return typeof text === 'object' ? Buffer.from(text.base64, 'base64') : Buffer.from(text)
}

const DEFAULTS = {
  failures: 0, crashes: 0, starts: 0, fence: 0, suspect: false, state: null, binds: null, due: null, wait: 0,
  first: null, last: null, cause: null, open: null, mode: null, since: null, listed: null, limit: 0, own: 0, firsts: 0,
  tokens: [], id: '', generation: '', consumer: '', notes: [], history: [], reason: '', moved: null
}

/** The fields of a record with every default in place, texts as latin1. Unknown fields are refused. */
export function filled(fields) {
  const out = { ...DEFAULTS, ...fields }
  for (const name of Object.keys(out)) if (!(name in DEFAULTS)) throw new Error(`unknown field ${name}`)
  for (const name of ['id', 'generation', 'consumer', 'reason']) out[name] = bytes(out[name]).toString('latin1')
  out.notes = out.notes.map((n) => ({ ...n, by: bytes(n.by).toString('latin1'), why: bytes(n.why).toString('latin1') }))
  out.history = out.history.map((h) => ({
    ...h, consumer: bytes(h.consumer).toString('latin1'), reason: bytes(h.reason).toString('latin1')
  }))
  return out
}

/** What the bytes of a record say; null if it is none. */
export function read(record) {
  const r = parseRecord(record)
  if (!r) return null
  const text = (b) => b.toString('latin1')
  const time = (n) => n || null
  return {
    failures: r.failures, crashes: r.crashes, starts: r.starts, fence: r.fence, suspect: r.suspect,
    state: r.state || null, binds: time(r.binds), due: time(r.due), wait: r.wait, first: time(r.first),
    last: time(r.last), cause: r.cause || null, open: r.openToken || null, mode: r.openMode || null,
    since: time(r.openSince), listed: time(r.listed), limit: r.limit, own: r.own, firsts: r.firsts,
    tokens: Object.entries(r.tokens), id: text(r.id), generation: text(r.generation), consumer: text(r.consumer),
    notes: notes(text(r.notes)), history: history(text(r.history)), reason: text(r.reason),
    moved: r.moved ? moved(r.moved, time) : null
  }
}

function moved({ copyNumber, top, until, mover, body }, time) {
  return { copy_number: copyNumber, top, until: time(until), mover: mover || null, body }
}

function notes(text) {
  const out = []
  while (text !== '') {
    const [line, kind, at, by, why] = /^(\w+) (\d+) (\d+) (\d+)\n/.exec(text)
    const end = line.length + Number(by)
    out.push({ kind, at: Number(at), by: text.slice(line.length, end), why: text.slice(end, end + Number(why)) })
    text = text.slice(end + Number(why))
  }
  return out
}

function history(text) {
  return text
    .split('\n')
    .slice(1)
    .map((entry) => {
      const [head, middle, consumer, reason] = entry.split('\t')
      const cause = head[0]
      return {
        cause, after: Number(head.slice(1)), ...(cause === 'c' ? { token: middle } : { ran: Number(middle) }),
        consumer, reason
      }
    })
}

/** The bytes of a record with these fields, which are filled. */
export function write(f) {
  const n = f.notes.map((x) => `${x.kind} ${x.at} ${x.by.length} ${x.why.length}\n${x.by}${x.why}`).join('')
  const h = f.history
    .map((x) => `\n${x.cause}${x.after}\t${x.cause === 'c' ? x.token : x.ran}\t${x.consumer}\t${x.reason}`)
    .join('')
  const tokens = '.' + f.tokens.map(([token, kind]) => `;${token}=${kind}`).join('')
  const words = [
    f.failures, f.crashes, f.starts, f.fence, f.suspect ? 1 : 0, f.state ?? '.', f.binds ?? 0, f.due ?? 0, f.wait,
    f.first ?? 0, f.first ? f.last - f.first : 0, f.cause ?? '.', f.open ?? '.', f.mode ?? '.', f.since ?? 0,
    f.listed ?? 0, f.limit, f.own, f.firsts, tokens, f.id.length, f.generation.length, f.consumer.length, n.length,
    h.length
  ]
  if (f.moved)
    words.push([f.moved.copy_number, f.moved.top, f.moved.until ?? 0, f.moved.mover ?? '.', f.moved.body].join(':'))
  return Buffer.from(words.join(' ') + '\n' + f.id + f.generation + f.consumer + n + h + f.reason, 'latin1')
}
