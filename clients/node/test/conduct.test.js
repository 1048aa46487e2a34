// Runs spec/v1/conduct.json.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { World } from './world.js'

const file = new URL('../../../spec/v1/conduct.json', import.meta.url)
const cases = JSON.parse(readFileSync(file, 'utf8')).cases

test('conduct', async (t) => {
  for (const c of cases) await t.test(c.name, () => new World(c).run())
})

test('a case that expects less, or a later time, fails', async () => {
  for (const c of cases) {
    const less = { ...c, trace: c.trace.slice(0, -1) }
    await assert.rejects(new World(less).run(), undefined, c.name)
    const later = { ...c, trace: c.trace.map((e) => ({ ...e, from: c.until + 1, to: undefined })) }
    await assert.rejects(new World(later).run(), /came at/, c.name)
  }
})
