/** `tenure authorize`: whether a signed grant allows something. No store is asked, so it works anywhere. */
import path from 'node:path'
import { invalid } from '../../core/errors.ts'
import { authorizeGrant } from '../../delegation/authorize-grant.ts'
import { verifyGrant } from '../../registrar/grant.ts'
import { integerOption, textOption } from '../arguments.ts'
import { defineCommand, type CliCommand } from '../command.ts'
import { readKeyFile, readText } from '../../delegation/key-file.ts'
import { visible } from '../output.ts'
import { given } from '../store-access.ts'
import { KEYS_OPTION, keyFileOf } from '../secret-files.ts'

const AMOUNT_MAX = 999_999_999_999_999

export const authorize: CliCommand = defineCommand({
  positionals: [],
  options: {
    grant: textOption('FILE', 'the file with the token'),
    keys: KEYS_OPTION,
    audience: textOption('NAME', 'who checks'),
    tool: textOption('NAME', 'the tool that is to be used'),
    path: textOption('PATH', 'the path that is to be touched, as the scope spells it'),
    work: textOption('ID', 'the work that is to be done'),
    tokens: integerOption({ field: 'tokens', min: 0, max: AMOUNT_MAX }, 'how many it will take'),
  },
  notes: [
    'It checks signatures, time, audience, scope, and that the whole budget is not too small. How much of the budget is left, only the store knows: spend there.',
  ],
  examples: ['tenure authorize --grant agent.grant --tool edit --path src/app.ts --tokens 1200'],
  run: async ({ options, printer, cwd }) => {
    if (options.grant === undefined) throw invalid('grant', 'must be given', undefined)
    const token = readText(path.resolve(cwd, options.grant)).trim()
    const { keys } = readKeyFile(keyFileOf(options.keys, cwd))
    const audience = given({ audience: options.audience })
    const grant = verifyGrant(token, keys, { now: Date.now(), ...audience })
    const { tool, path: file, work } = options
    authorizeGrant(
      grant,
      given({ tool, path: file, workId: work }),
      given({ tokens: options.tokens }),
    )
    const { id: leaseId, holder, resource, expiresAtMs, root, keyIds } = grant
    const answer = { allowed: true, leaseId, holder, resource, expiresAtMs, root, keyIds }
    printer.answer(answer, () => {
      const until = new Date(expiresAtMs).toISOString()
      const signers = [...new Set(keyIds)].join(', ')
      return visible(
        `allowed: ${holder} under lease ${leaseId} until ${until}, signed by ${signers}`,
      )
    })
    return 0
  },
})
