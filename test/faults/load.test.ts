/**
 * Real processes contend for a few files on a store whose server dies, stops or is cut off. The check knows nothing of
 * how Tenure works: it looks at what the workers logged, at what the fenced files took, and at the ledger.
 */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, describe, it } from 'vitest'
import { expectChaosSurvived, expectTroubleSurvived } from './load-assertions.ts'
import { TROUBLES } from './load.ts'
import { SERVER_STORES } from './server-stores.ts'

const LOAD = { processes: 4, troubleMs: 2_000 }
let directory: string

beforeEach(() => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-load-'))
})

afterEach(() => {
  fs.rmSync(directory, { recursive: true, force: true })
})

describe.each(SERVER_STORES)('%s', (name, store) => {
  it('killed and stopped processes never hold one file at the same time', async () => {
    await expectChaosSurvived({ name, store, directory, ...LOAD })
  }, 120_000)

  // One of them; all of them are in the long form.
  it.each(TROUBLES.slice(0, 1))(
    'a server that %s: no overlap, no lost grant, and service resumes by itself',
    (how, trouble) => {
      const options = { name: `${name} ${how}`, store, directory, ...LOAD }
      return expectTroubleSurvived(trouble, options)
    },
    120_000,
  )
})
