import { createHash } from 'node:crypto'

/**
 * Distinguishes messages with the same id, by their bodies and the seconds of their timestamps, for a copy from a delay
 * queue.
 * @param {import('amqplib').ConsumeMessage} message
 * @returns {string}
 */
export function markOf({ properties, content }) {
  return createHash('sha256').update(`${properties.timestamp ?? 0}\n`).update(content).digest('hex').slice(0, 16)
}

/**
 * Names a message by its content, as strikes dead list --read does for one that has no id. Messages that are equal in
 * their id, correlation id, type and body have the same name. If their properties are not UTF-8, the name differs from
 * that of the command.
 * @param {import('amqplib').ConsumeMessage} message
 * @returns {string}
 */
export function fingerprintOf({ properties, content }) {
  const head = JSON.stringify([properties.messageId ?? '', properties.correlationId ?? '', properties.type ?? ''])
  // Go escapes these characters in JSON.
  const escaped = head.replace(/[<>&\u2028\u2029]/g, (c) => '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0'))
  return 'fp:' + createHash('sha256').update(escaped).update(content).digest('hex').slice(0, 12)
}
