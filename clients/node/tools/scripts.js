// Copies the scripts of the Go library into this package, or checks that the copies have the same hashes.
import { createHash } from 'node:crypto'
import { copyFileSync, existsSync, readFileSync } from 'node:fs'

const names = ['record', 'start', 'fail', 'end', 'save', 'control', 'undecodable']
const from = new URL('../../../counter/scripts/', import.meta.url)
const to = new URL('../scripts/', import.meta.url)
const hash = (url) => existsSync(url) ? createHash('sha256').update(readFileSync(url)).digest('hex') : 'missing'

let differ = 0
for (const name of names) {
  const source = new URL(`${name}.lua`, from)
  const copy = new URL(`${name}.lua`, to)
  if (process.argv[2] === 'copy') copyFileSync(source, copy)
  if (hash(source) === hash(copy)) continue
  console.error(`scripts/${name}.lua differs from counter/scripts/${name}.lua: run "npm run scripts" in clients/node`)
  differ++
}
process.exitCode = differ > 0 ? 1 : 0
