import { expect, it } from 'vitest'
import { FileLeases } from '../../src/files/index.ts'
import { failWith, FaultyApi, loseAnswer } from '../client/harness.ts'
import { hearFaults } from '../runtime/hear-faults.ts'
import { granted, refusal, stillBench } from './harness.ts'

it('reports a place in the queue that an agent left and the store could not take back', async () => {
  const { api, runtime } = stillBench()
  const faults = hearFaults()
  const faulty = new FaultyApi(api, runtime)
  const files = new FileLeases(faulty.api, { runtime })
  let answer = (): void => undefined
  faulty.when('acquire', async (send) => {
    await new Promise<void>((resolve) => {
      answer = resolve
    })
    return send()
  })
  faulty.when('withdraw', failWith('STORE_UNAVAILABLE'))
  const cancel = new AbortController()
  const request = { filePath: '/repo/a', agentId: 'agent-2', blocking: true, signal: cancel.signal }
  const asked = files.acquireLease(request)
  await runtime.advance(10)
  cancel.abort()
  expect(refusal(await asked).error.code).toBe('ABORTED')
  answer()
  await runtime.advance(130_000)
  expect(faults()).toContainEqual(['client/withdraw', 'a fault of the test'])
  await files.close()
})

it('leaves a lease exclusive that was so before an upgrade whose answer was lost', async () => {
  const { api, runtime } = stillBench()
  const faulty = new FaultyApi(api, runtime)
  const files = new FileLeases(faulty.api, { runtime })
  const { id } = granted(await files.acquireLease({ filePath: '/repo/a', agentId: 'agent-1' }))
  faulty.when('upgrade', loseAnswer)
  const failed = expect(files.upgradeLease({ leaseId: id, agentId: 'agent-1' })).rejects
  const told = failed.toMatchObject({ code: 'STORE_OUTCOME_UNKNOWN' })
  await runtime.advance(10_000)
  await told
  await files.close()
  expect(await api.get({ id })).toMatchObject({ state: 'active', mode: 'exclusive' })
})
