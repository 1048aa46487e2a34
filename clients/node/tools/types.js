// Checks the code against its JSDoc types, and that types/ is what tsc generates from them.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const out = mkdtempSync(join(tmpdir(), 'strikes-types-'))
try {
  execFileSync(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-p', root, '--outDir', out], { stdio: 'inherit' })
  const want = readdirSync(out)
  const differ = want.filter((name) => textOf(join(out, name)) !== textOf(join(root, 'types', name)))
  const extra = readdirSync(join(root, 'types')).filter((name) => !want.includes(name))
  for (const name of [...differ, ...extra]) console.error(`types/${name} is not what tsc generates: run "npm run types" in clients/node`)
  process.exitCode = differ.length + extra.length > 0 ? 1 : 0
} catch {
  process.exitCode = 1 // tsc has said why
} finally {
  rmSync(out, { recursive: true })
}

/** @param {string} path */
function textOf(path) {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return undefined
  }
}
