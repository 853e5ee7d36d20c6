/** The short form of two agents that edit one tree; `two-agents.proof.ts` is the long one. */
import { expect, it } from 'vitest'
import { playTwoAgents } from './two-agents.ts'

it('two agents whose client calls the hooks edit no file that the other has, kills or not', async () => {
  const play = { edits: 8, files: 2, killEvery: 3, editsPerSession: 2, hasHooks: true }
  const outcome = await playTwoAgents(play)
  expect(outcome).toMatchObject({ tramplings: 0, lost: 0, broken: [], leases: 0, memories: 0 })
  expect(outcome.edits).toBeGreaterThanOrEqual(8)
  expect(outcome.kills).toBeGreaterThan(0)
  expect(outcome.denials.filter((reason) => !/ is held by claude:/.test(reason))).toEqual([])
})
