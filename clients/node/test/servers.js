// The servers of the tests. make client-node starts private ones.
import { randomBytes } from 'node:crypto'
import { Redis } from 'ioredis'

/** @param {string} name */
function required(name) {
  const url = process.env[name]
  if (!url) throw new Error(`${name} is not set: run make client-node, which starts private servers`)
  return url
}

export const amqpURL = required('AMQP_URL')
export const redisURL = required('REDIS_URL')

/** A name that no other test uses. */
export function unique(name = 'node') {
  return `${name}-${randomBytes(6).toString('hex')}`
}

/** A plain client, with which a test looks at the store. */
export function plainRedis() {
  return new Redis(redisURL)
}

/**
 * Polls until a condition holds. The time only ends a test that hangs.
 * @param {() => unknown} condition
 * @param {string} what
 */
export async function eventually(condition, what) {
  const until = Date.now() + 120_000
  for (;;) {
    const got = await condition()
    if (got) return got
    if (Date.now() > until) throw new Error(`it did not come about: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}
