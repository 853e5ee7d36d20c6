/** The long form of load.test.ts. */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, describe, it } from 'vitest'
import { expectChaosSurvived, expectTroubleSurvived } from './load-assertions.ts'
import { TROUBLES } from './load.ts'
import { SERVER_STORES } from './server-stores.ts'

const LOAD = { processes: 8, troubleMs: 20_000 }
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
  })

  it.each(TROUBLES)(
    'a server that %s: no overlap, no lost grant, and service resumes by itself',
    (how, trouble) => {
      const options = { name: `${name} ${how}`, store, directory, ...LOAD }
      return expectTroubleSurvived(trouble, options)
    },
  )
})
