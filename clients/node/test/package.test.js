// The packed archive installs into an empty project, and works there.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { amqpURL, redisURL } from './servers.js'

const root = fileURLToPath(new URL('..', import.meta.url))

const program = `
import { Consumer, dial } from 'strikes'
const counter = dial(process.env.REDIS_URL)
const reply = await counter.fail({ vhost: '/', queue: 'packed', id: 'm1', token: 't' + process.pid }, { limit: 1 })
const consumer = new Consumer({ url: process.env.AMQP_URL, queue: 'no-such-queue', counter, handler() {} })
await consumer.run().catch((err) => console.log(err.name))
counter.close()
console.log(reply.code)
`

test('npm pack, and an empty project', { timeout: 300_000 }, (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'strikes-pack-'))
  t.after(() => rmSync(dir, { recursive: true }))
  const run = (command, ...args) =>
    execFileSync(command, args, {
      cwd: dir, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, AMQP_URL: amqpURL, REDIS_URL: redisURL }
    })
  execFileSync('npm', ['pack', '--silent', '--pack-destination', dir], { cwd: root, stdio: 'pipe' })
  const [archive] = readdirSync(dir)
  writeFileSync(join(dir, 'package.json'), '{"name":"empty","private":true,"type":"module"}')
  run('npm', 'install', '--silent', '--no-audit', '--no-fund', '--prefer-offline', `./${archive}`)
  writeFileSync(join(dir, 'main.js'), program)
  assert.equal(run(process.execPath, 'main.js'), 'RefusedError\nEXHAUSTED\n')
  const files = readdirSync(join(dir, 'node_modules/strikes')).sort()
  assert.deepEqual(files, ['LICENSE', 'README.md', 'nestjs.md', 'package.json', 'scripts', 'src', 'types'])

  // Its types serve a TypeScript program.
  writeFileSync(join(dir, 'main.ts'), `
    import { Consumer, dial, reject, Settler } from 'strikes'
    const counter = dial('redis://localhost', { ttl: 1e9 })
    new Consumer({
      url: 'amqp://x', queue: 'q', counter, maxRetries: 2,
      async handler(m, { number, signal }) { if (number > 1 && !signal.aborted) throw reject(m.properties.messageId) }
    })
    // @ts-expect-error an unknown option
    new Settler({ queue: 'q', counter, maxRetry: 2 })
  `)
  run(
    process.execPath, join(root, 'node_modules/typescript/bin/tsc'), '--noEmit', '--strict', '--skipLibCheck',
    '--module', 'nodenext', '--types', 'node', '--typeRoots', join(root, 'node_modules/@types'), 'main.ts'
  )
  assert.match(
    readFileSync(join(dir, 'node_modules/strikes/scripts/record.lua'), 'utf8'),
    /^-- The functions that every step needs/
  )
})
