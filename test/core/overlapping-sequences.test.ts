import { expect, it } from 'vitest'
import { playAllSequences } from './overlapping-sequences.ts'

it('keeps every promise in all sequences of four commands by two', () => {
  expect([...playAllSequences(4)].toSorted()).toEqual(OUTCOMES)
})

/** Those of five commands are the same; they are played by `npm run proof`. */
const OUTCOMES: readonly string[] = [
  ...['acquire expired', 'acquire granted', 'acquire held', 'acquire queued', 'acquire terminal'],
  ...['adopt expired', 'adopt granted', 'adopt terminal', 'claim dropped', 'claim expired'],
  ...['claim granted', 'claim held', 'claim queued', 'claim terminal', 'downgrade downgraded'],
  ...['downgrade expired', 'downgrade not_found', 'downgrade terminal', 'release expired'],
  ...['release not_found', 'release released', 'release terminal', 'revoke expired'],
  ...['revoke not_found', 'revoke revoked', 'revoke terminal', 'transfer expired'],
  'transfer id_taken',
  ...['transfer nobody_waiting', 'transfer not_found', 'transfer terminal'],
  ...['transfer transferred', 'upgrade deadlock', 'upgrade expired', 'upgrade held'],
  ...['upgrade not_found', 'upgrade terminal', 'upgrade upgraded', 'upgrade upgrading'],
  ...['withdraw withdrawn', 'withdraw_upgrade expired', 'withdraw_upgrade not_found'],
  ...['withdraw_upgrade terminal', 'withdraw_upgrade upgrade_withdrawn'],
  'withdraw_upgrade upgraded',
]
