/**
 * The public digest of a session. The session itself is a secret of its client: a process that knows it can claim and
 * withdraw the tickets of that client. So the store, answers and events have only the digest, and a command is compared
 * by the digest of the session that it brings.
 */
import type crypto from 'node:crypto'
import { builtinModule } from '../runtime/system-runtime.ts'

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
  const { createHash } = builtinModule('node:crypto') as typeof crypto
  const hash = createHash('sha256').update('tenure session\0').update(session)
  return hash.digest('base64url').slice(0, 22)
}
