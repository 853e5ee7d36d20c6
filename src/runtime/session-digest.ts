/**
 * What the world is told of a session. The session itself is a secret of its client: whoever knows it can claim and
 * withdraw what its client waits for. So a store keeps a digest, answers and events show the same, and a command proves
 * that it knows the session by having the digest made of it anew.
 */

/** Most callers have one session for all their commands, and some have one for each agent. */
const REMEMBERED_MAX = 256

const remembered = new Map<string, string>()

export function sessionDigest(session: string): string {
  const known = remembered.get(session)
  if (known !== undefined) return known
  if (remembered.size >= REMEMBERED_MAX) remembered.clear()
  const digest = digestOf(session)
  remembered.set(session, digest)
  return digest
}

/** 132 bits. The module is loaded when it is needed: a command that only looks must not pay for it. */
function digestOf(session: string): string {
  const { createHash } = process.getBuiltinModule('node:crypto')
  const hash = createHash('sha256').update('tenure session\0').update(session)
  return hash.digest('base64url').slice(0, 22)
}
