/** `tenure` on paths through links that lead out of what another holds. */
import fs from 'node:fs'
import path from 'node:path'
import { expect, it } from 'vitest'
import { workshop } from './tenure-process.ts'

it('refuses such a path, says which lease it leads out of, and takes the file by its own name', async () => {
  const shop = workshop()
  const { directory } = shop
  const [repo, outside] = [path.join(directory, 'repo'), path.join(directory, 'outside')]
  fs.mkdirSync(repo)
  fs.mkdirSync(outside)
  fs.symlinkSync('../outside', path.join(repo, 'linked'))
  await shop.json(['acquire', 'repo/', '--holder', 'ann'])

  const words = `${repo}/linked/x leads to ${outside}/x, out of file:${repo}, which ann holds`
  const asked = ['repo/linked/x', '--holder', 'bob']
  const [acquired, ran, why] = await Promise.all([
    shop.tenure(['acquire', ...asked, '--wait', '30s']),
    shop.tenure(['run', ...asked, '--', process.execPath, '-e', 'console.log("ran")']),
    shop.tenure(['why', 'repo/linked/x']),
  ])
  expect(acquired).toMatchObject({ code: 10, stdout: '' })
  expect(acquired.stderr).toContain(words)
  expect(ran).toMatchObject({ code: 10, stdout: '' })
  expect(why.stdout).toBe(`file:${outside}/x is free\n${words}; that lease does not cover it\n`)
  const told = await shop.json<{ leadsOutOf: readonly object[] }>(['why', 'repo/linked/x'])
  expect(told.leadsOutOf).toMatchObject([{ holder: 'ann', resource: `file:${repo}` }])

  const own = await shop.json<object>(['acquire', 'repo/linked/y', '--holder', 'ann'])
  expect(own).toMatchObject({ resource: `file:${outside}/y` })
  const named = await shop.json<object>(['acquire', 'outside/x', '--holder', 'bob'])
  expect(named).toMatchObject({ resource: `file:${outside}/x`, holder: 'bob' })
})
