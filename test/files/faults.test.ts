import { expect, it } from 'vitest'
import { FileLeases } from '../../src/files/file-leases.ts'
import { failWith, FaultyApi } from '../client/harness.ts'
import { hearFaults } from '../runtime/hear-faults.ts'
import { refusal, stillBench } from './harness.ts'

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
